package stage

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
	"github.com/flowd-io/flowd/schema"
)

// Snapshot is the pipeline as it is now. It waits for nothing but short locks.
func (r *Run) Snapshot() engine.Snapshot {
	p, now := r.layout, time.Now()
	s := engine.Snapshot{
		Pipeline: p.Name, State: r.state(), Started: r.started, Stats: r.Stats(),
		MaxMessages: p.MaxMessages, MaxBytes: p.MaxBytes, Bytes: r.settlement.credits.Used(p.MaxBytes), Waiting: r.settlement.credits.Waits(),
		Lanes: p.Workers, LanesBusy: r.feed.queue.Busy(), Retries: int(r.settlement.retrying.Load()),
		Edges: p.edges(), Steps: statesOf(p.Steps, p.Groups, r.IsOpen()), Held: r.held(now), Stuck: r.stuck(now),
		Failed: map[engine.Class]int64{},
	}
	s.Messages, s.DeadLettered = int(s.Stats.Pieces.InFlight), s.Stats.Pieces.Ended[engine.DeadLettered]
	s.OldestUnsettled, s.OldestAt = r.Open.Oldest()
	took := r.Latency.Get()
	s.Latency = took.Read()
	r.Failures.Count(s.Failed)
	if err := r.Failed(); err != nil && s.State == engine.Stopped {
		s.Err = err.Error()
	}
	for _, in := range p.Inputs {
		s.Inputs = append(s.Inputs, r.input(in))
	}
	for _, b := range r.batching.batchers {
		if b.plan.Name != "" {
			s.Batchers = append(s.Batchers, b.state())
		}
	}
	for _, o := range p.Outputs {
		if o.Route == nil {
			s.Outputs = append(s.Outputs, r.writing.sinks[o].state())
		}
	}
	for _, l := range p.Limits {
		s.Limits = append(s.Limits, l.State())
	}
	s.Tables = p.Plugins.Tables()
	if r.IsOpen() {
		s.Troubles = p.Plugins.Troubles()
	}
	return s
}

// Stats are the counts so far.
func (r *Run) Stats() engine.Stats {
	return engine.Stats{Roots: r.Roots.Read(), Pieces: r.Pieces.Read()}
}

func (r *Run) state() engine.State {
	switch {
	case r.At() == life.Over:
		return engine.Stopped
	case r.Draining() || r.Handing():
		return engine.Draining
	case r.layout.Pauses.Is():
		return engine.Paused
	case !r.IsOpen():
		return engine.Starting
	}
	return engine.Running
}

// input sums up the instances of an input.
func (r *Run) input(in *InputPlan) engine.InputState {
	s := engine.InputState{Name: in.Name, Type: in.Type, State: "ended", Steps: statesOf(in.Steps, nil, r.IsOpen())}
	if in.Limit != nil {
		l := in.Limit.State()
		s.Limit = &l
	}
	if x := r.pushers[in.Name]; x != nil {
		s.Received, s.Bytes = x.figures.received.Load(), x.figures.bytes.Load()
	}
	for _, rd := range r.readers {
		if rd.plan != in {
			continue
		}
		f := &rd.figures
		one := f.instance()
		s.Instances = append(s.Instances, one)
		s.Received += one.Received
		s.Bytes += f.bytes.Load()
		s.Restarts += one.Restarts
		if one.State != "ended" {
			s.State = one.State
		}
		if one.Err != "" {
			s.Err = one.Err
		}
		if x, ok := rd.in.(engine.Scheduled); ok && r.IsOpen() && one.State == "reading" {
			if due := x.Due(); s.Due.IsZero() || due.Before(s.Due) {
				s.Due = due
			}
		}
		if x, ok := rd.in.(engine.Sourced); ok && r.IsOpen() {
			s.Sources = append(s.Sources, maskedSources(x.Sources(), r.layout.Secrets)...)
		}
		if x, ok := rd.in.(engine.Positioned); ok && r.IsOpen() {
			s.Progress = sum(s.Progress, x.Progress())
		}
		if behind := f.behind(time.Now()); behind != nil && (s.Behind == nil || *behind > *s.Behind) {
			s.Behind = behind
		}
	}
	for _, a := range r.Acking() {
		if a.Input == in.Name {
			s.Unacked += a.Waiting()
			if since, err := a.Failing(); err != nil && time.Since(since) > ackPatience {
				s.AckErr, s.AckSince = guard.FirstLine(guard.Masked(r.layout.Secrets, err)), since
			}
		}
	}
	return s
}

// maskedSources masks secrets in the errors of sources.
func maskedSources(all []engine.SourceState, secrets *schema.Secrets) []engine.SourceState {
	for i := range all {
		all[i].Err = secrets.Mask(all[i].Err)
	}
	return all
}

// ackPatience is how long acknowledgements may fail before that is shown.
const ackPatience = 5 * time.Second

// sum adds the progress of another instance of an input.
func sum(all *engine.Progress, more engine.Progress) *engine.Progress {
	if all == nil {
		return &more
	}
	all.Revoked += more.Revoked
	all.TakenAway += more.TakenAway
	all.Positions = append(all.Positions, more.Positions...)
	slices.SortFunc(all.Positions, func(a, b engine.Position) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// statesOf are those of a program's steps, and of the groups among them. Only when they are open they are asked for more than
// the engine knows.
func statesOf(p *steps.Program, groups []*GroupPlan, open bool) (all []engine.StepState) {
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.Figures == nil || o.Run == nil && o.Group == 0 {
			continue
		}
		x := o.Figures.Read()
		if of, ok := o.Run.(engine.Pooled); ok && open {
			pool := of.Pool()
			x.Pool = &pool
		}
		all = append(all, x)
		if o.Group > 0 {
			all = append(all, statesOf(groups[o.Group-1].Steps, nil, open)...)
		}
	}
	return all
}

func (b *batcher) state() engine.BatcherState {
	s := engine.BatcherState{Name: b.plan.Name, Fill: b.fill.Read(), Steps: statesOf(b.plan.Steps, nil, b.IsOpen())}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Open, s.Batches = b.open, maps.Clone(b.sent)
	return s
}

func (o *sink) state() engine.OutputState {
	s, at := o.stateOf()
	if x, ok := at.(engine.Staller); ok {
		s.Stalled = o.layout.Secrets.Mask(x.Stalled())
	}
	return s
}

// stateOf is the state as the engine knows it, and the instance to ask for the rest.
func (o *sink) stateOf() (engine.OutputState, engine.Output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &o.figures
	msgs, bytes := o.queued()
	s := engine.OutputState{
		Name: o.plan.Name, Type: o.plan.Type, DeadLetter: !o.plan.Feeds,
		Queued: msgs, QueuedBytes: bytes, Writing: o.working, Concurrency: o.most,
		Written: f.written, Failed: f.failed, Retries: f.retries, Abandoned: f.abandoned,
		Latency: f.took.Read(), Delivery: f.delivery.Read(), Breaker: o.gate.State(), Err: f.err, FailingSince: f.since,
		Steps:   statesOf(o.plan.Steps, nil, o.IsOpen()),
		Refused: f.refused, Refusal: f.refusal,
	}
	if o.plan.Limit != nil {
		l := o.plan.Limit.State()
		s.Limit = &l
	}
	return s, o.at.out
}

// stuck are the calls that are past their deadlines.
func (r *Run) stuck(now time.Time) (all []engine.Stuck) {
	add := func(place, what string, since int64, deadline time.Duration) {
		if at := guard.Late(since, deadline, now); !at.IsZero() {
			all = append(all, engine.Stuck{Place: place, What: what, Since: at})
		}
	}
	step := func(c *guard.Clock[steps.Op]) {
		if o := c.Of.Load(); o != nil {
			add("step "+o.Name, "step", c.Since.Load(), o.Timeout+grace)
		}
	}
	for _, l := range r.lanes {
		step(&l.x.Clock)
	}
	add("the steps", "lane", r.idling.Load(), 0)
	for _, rd := range r.readers {
		step(&rd.own.x.Clock)
	}
	for _, x := range r.pushers {
		step(&x.own.x.Clock)
	}
	for _, s := range r.writing.stages {
		for _, w := range s.hired() {
			if x := w.writer; x != nil {
				add("output "+s.name, "write", x.since.Load(), x.sink.plan.Timeout+grace)
			}
			step(&w.x.Clock)
		}
	}
	for _, b := range r.batching.batchers {
		add("batcher "+b.plan.Name, "batcher", b.since.Load(), r.layout.Timeout)
	}
	for _, a := range r.Acking() {
		add("input "+a.Input, "ack", a.Since.Load(), a.Timeout+grace)
	}
	return all
}

// grace is how long after its deadline a call may return before it counts as stuck.
const grace = time.Second

// held describes the oldest message that waits for another attempt or a limit; nil: none does. Messages that wait for a key
// are younger than the message that holds it.
func (r *Run) held(now time.Time) (oldest *engine.Held) {
	look := func(m *engine.Message, due time.Time, why func() (place, err string)) {
		led := ledger.FirstRoot(m).Led
		if led == nil || oldest != nil && now.Sub(led.ReadAt) <= oldest.Age {
			return
		}
		oldest = &engine.Held{Age: now.Sub(led.ReadAt), Due: max(0, due.Sub(now))}
		oldest.At = ledger.Position(led.InputName, m.Meta, msg(m).Part)
		oldest.For, oldest.Err = why()
	}
	r.settlement.timers.Each(func(due time.Time, b *engine.Batch, p flow.Waiting) {
		if p != nil {
			look(p.Message(), due, p.Awaits)
			return
		}
		for i := range slab(b).Msgs {
			m := &slab(b).Msgs[i]
			look(m, due, func() (string, string) { return awaits(retry.TrialOf(m)) })
		}
	})
	return oldest
}

// awaits is where a message is to be tried again, and why.
func awaits(t *retry.Trial) (place, err string) {
	if t == nil || t.Err == nil {
		return "a retry", ""
	}
	return "a retry of " + t.Err.Place(), guard.FirstLine(t.Err)
}

// readFigures count what a reader does.
type readFigures struct {
	received, bytes, restarts atomic.Int64
	state                     atomic.Pointer[string]
	err                       atomic.Pointer[string]    // why it was restarted last; nil: it never was
	since                     atomic.Pointer[time.Time] // when it was opened; nil: it is not open
	newest                    atomic.Pointer[newest]    // message that was read; nil: the source has no timestamps
}

// newest is the last message that was read: its timestamp at the source, and when it was read.
type newest struct{ stamped, read time.Time }

// instance is the state of the reader as one instance of its input.
func (f *readFigures) instance() engine.InstanceState {
	s := engine.InstanceState{State: *f.state.Load(), Received: f.received.Load(), Restarts: f.restarts.Load()}
	if err := f.err.Load(); err != nil && !f.stands(time.Now()) {
		s.Err, s.State = *err, "restarting"
	}
	return s
}

// behind is how old the last message was when it was read or, while nothing is read, is now; nil: it is not known.
func (f *readFigures) behind(now time.Time) *time.Duration {
	last := f.newest.Load()
	if last == nil {
		return nil
	}
	at := now
	if state := *f.state.Load(); state == "reading" || state == "ended" {
		at = last.read
	}
	behind := max(0, at.Sub(last.stamped))
	return &behind
}

// sees records the last message of a Read.
func (f *readFigures) sees(m *engine.Message, read time.Time) {
	for _, name := range stampNames {
		if v, ok := m.Meta.Get(name); ok {
			if at, ok := v.(time.Time); ok {
				f.newest.Store(&newest{at, read})
				return
			}
		}
	}
}

// stampNames are the names of metadata in which sources say when a message was sent.
var stampNames = []string{"timestamp", "sent_at", "commit_time"}

func (f *readFigures) setState(state string) { f.state.Store(&state) }

func (f *readFigures) restarting() bool { return *f.state.Load() == "restarting" }

func (f *readFigures) lost(err error) {
	f.setState("restarting")
	text := guard.FirstLine(err)
	f.err.Store(&text)
	f.since.Store(nil)
}

func (f *readFigures) connects() {
	now := time.Now()
	f.since.Store(&now)
}

// stands says whether the connection has lasted for at least standing at a time.
func (f *readFigures) stands(at time.Time) bool {
	since := f.since.Load()
	return since != nil && at.Sub(*since) >= standing
}

// outFigures count what an output does. Its stage's lock guards them.
type outFigures struct {
	written, failed, retries, abandoned int64
	took                                *guard.Histogram
	delivery                            guard.Latency // of messages, from read to written
	err                                 string
	since                               time.Time // of the failing
	refused                             int64     // messages in a row that it has failed for good
	refusal                             string    // of the last of them
}

func (f *outFigures) wrote(s written) {
	f.written += int64(s.done)
	f.failed += int64(s.failed)
	f.took.Observe(s.took.Seconds())
	for _, r := range s.read {
		f.delivery.Add(s.at.Sub(r.at), r.n)
	}
	switch {
	case s.done > 0:
		f.refused, f.refusal = 0, ""
	case s.refused > 0:
		f.refused, f.refusal = f.refused+int64(s.refused), s.err.Error()
	}
}

func (f *outFigures) worked() { f.err, f.since = "", time.Time{} }

func (f *outFigures) fails(err error) {
	if f.err == "" {
		f.since = time.Now()
	}
	f.err = err.Error()
}
