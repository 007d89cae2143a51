package stage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/schema"
)

// Run is a pipeline at work. It makes the parts of a pipeline, starts them, and ends them. A part knows nothing of the
// Run: it has what it works with, and no more.
type Run struct {
	ledger.Account // what the run owes to sources and steps
	life.Life      // how far it has come, and the fence: whoever ends messages is inside
	verdict        // why it ends

	layout    *Layout   // what it runs
	Next      *Layout   // that follows; set before Replace
	inherited *Handover // what the plan before has left; nil: nothing
	started   time.Time // when it was made

	// The parts, in the order in which messages come through them.
	intake   intake
	readers  []*reader
	pushers  map[string]*pusher // by input
	feed     laneFeed
	lanes    []*lane
	batching batching
	writing  writing

	settlement settlement // what all parts tell how messages end
	balance    balance    // what looks at all parts

	Loops  sync.WaitGroup  // of the goroutines beside the readers
	works  context.Context // of steps and writes
	idling atomic.Int64    // since when lanes work without a result, unix nanoseconds; 0: they don't
}

// intake counts readers, and what they wait for.
type intake struct {
	reading   atomic.Int64 // readers that have not ended
	following atomic.Int64 // readers among them that end with the writers that feed them
	replaying atomic.Int64 // readers that wait for positions to be settled
	hurried   atomic.Int64 // inputs that want their messages back soon
	pace      flow.Pace    // where readers wait that are too far ahead
}

// laneFeed is the way into the lanes, for readers, and for messages that come back.
type laneFeed struct {
	queue    *flow.LaneQueue
	upstream atomic.Int64 // messages that lanes and groups have yet to carry
	grouped  atomic.Int64 // those of them in open groups
}

// Push queues messages that the run does not count as upstream yet.
func (f *laneFeed) Push(b *engine.Batch) {
	f.upstream.Add(int64(len(slab(b).Msgs)))
	f.queue.Push(b)
}

// batching is where messages wait for others: batchers behind the lanes, and groups among the steps.
type batching struct {
	batchers []*batcher
	sole     *batcher // that takes all messages, without a key; nil: they differ
	groups   []*group
}

// writing is the outputs.
type writing struct {
	sinks   map[*OutputPlan]*sink
	stages  []*stage // of outputs, and of groups
	feeding feeding
}

// verdict is how a run comes to its end.
type verdict struct {
	Empty   chan struct{} // has room for one: nothing is in flight, and no reader left
	Failing chan struct{} // closed with the first error that ends the run
	failed  sync.Once
	secrets *schema.Secrets

	mu  sync.Mutex // guards the field below
	err error
}

// NewRun makes a run of a pipeline, which does nothing yet.
func NewRun(p *Layout, inherited *Handover) *Run {
	r := &Run{layout: p, inherited: inherited, started: time.Now()}
	r.Log, r.Timeout = p.Log, p.Timeout
	r.Failures.Log, r.Failures.Secrets = p.Log, p.Secrets
	r.Holding = func(a *ledger.AckLoop) engine.Holding { return &holding{&r.balance, a} }
	r.Empty, r.Failing, r.secrets = make(chan struct{}, 1), make(chan struct{}), p.Secrets
	r.feed.queue = flow.NewLaneQueue(p.Workers, p.Ordered && !p.Turns, r.balance.relieve)
	r.feed.queue.Popped = r.TakeAway

	s := &r.settlement
	s.Account, s.Life, s.layout, s.verdict, s.lanes, s.balance = &r.Account, &r.Life, p, &r.verdict, &r.feed, &r.balance
	if p.Tracer != nil {
		s.slow = p.Tracer.Slow()
	}
	s.timers, s.outputs = flow.NewTimers(), map[*OutputPlan]destination{}
	s.credits = flow.Credits{Msgs: p.MaxMessages, Bytes: p.MaxBytes, Most: p.MaxMessages,
		Starved: r.balance.relieve, Upstream: func() bool { return r.feed.upstream.Load() > 0 }}
	s.holds = order.NewHolds(p.Ordered, p.OrderBy, &s.credits, r.feed.Push)
	r.balance = balance{settlement: s, intake: &r.intake, batching: &r.batching, writing: &r.writing}

	r.writing.build(s)
	r.batching.build(s, &r.intake)
	for _, g := range r.batching.groups {
		r.writing.stages = append(r.writing.stages, g.stage)
	}
	for i := range p.Workers {
		r.lanes = append(r.lanes, newLane(s, &r.batching, i))
	}
	r.pushers = map[string]*pusher{}
	for _, in := range p.Inputs {
		r.pushers[in.Name] = newPusher(&r.balance, in)
		for i, instance := range in.Inputs {
			rd := newReader(&r.balance, in, instance)
			rd.index = i
			r.readers = append(r.readers, rd)
		}
	}
	r.inherit(inherited)
	return r
}

// build makes the outputs of a pipeline.
func (w *writing) build(s *settlement) {
	w.sinks, w.feeding.credits = map[*OutputPlan]*sink{}, &s.credits
	for _, o := range s.layout.Outputs {
		if o.Route == nil {
			w.sinks[o] = newSink(s, &w.feeding, o)
			w.stages, s.outputs[o] = append(w.stages, w.sinks[o].stage), w.sinks[o]
			if o.Feeds {
				w.feeding.outputs++
			}
		}
	}
	for _, o := range s.layout.Outputs {
		if o.Route != nil {
			newComposite(s, o)
		}
	}
}

// build makes the groups and batchers of a pipeline.
func (x *batching) build(s *settlement, in *intake) {
	p := s.layout
	for _, g := range p.Groups {
		x.groups = append(x.groups, newGroup(s, in, g))
	}
	for _, b := range p.Batchers {
		x.batchers = append(x.batchers, newBatcher(s, b))
	}
	if len(p.Batchers) == 1 && p.Batchers[0].Match == nil && p.Batchers[0].Key == nil && !p.Batchers[0].GoesOn {
		x.sole = x.batchers[0]
	}
}

// Begin starts the workers of the stages, the batchers and the lanes.
func (r *Run) Begin(works, batches, expired context.Context) {
	r.works, r.settlement.expired = works, expired
	for _, o := range r.writing.sinks {
		o.holdIfUnopened()
	}
	for _, s := range r.writing.stages {
		s.start(works, &r.Loops)
	}
	for _, b := range r.batching.batchers {
		if b.plan.Batcher != nil {
			r.Loops.Go(func() { b.loop(batches) })
		}
	}
	for _, l := range r.lanes {
		r.Loops.Go(func() { l.loop(r.works) })
	}
	r.Loops.Go(func() { r.settlement.timers.Loop(batches) })
	r.Loops.Go(func() { r.watch(batches) })
}

// StartReaders starts a reader for each instance of each input; they read until reads ends.
func (r *Run) StartReaders(readers *sync.WaitGroup, reads context.Context) {
	for _, in := range r.layout.Inputs {
		r.intake.reading.Add(int64(len(in.Inputs)))
		if in.Follows {
			r.intake.following.Add(int64(len(in.Inputs)))
		}
	}
	r.intake.reading.Add(int64(len(r.pushers))) // until they have read what the plan before has left
	for _, x := range r.pushers {
		readers.Go(func() { x.loop(reads, r.works, r.inherited) })
	}
	for _, rd := range r.readers {
		readers.Go(func() {
			rd.reenter(r.works, r.inherited)
			ctx := reads
			if rd.plan.Follows { // its writers' end stops it
				ctx = r.settlement.expired
			}
			err := rd.loop(ctx, r.works)
			if s, ok := rd.in.(engine.Stopper); ok && ctx.Err() != nil && !r.staysOpen(rd.in) {
				err = errors.Join(err, guard.Guard(r.works, s.Stop))
			}
			if rd.plan.Follows {
				r.intake.following.Add(-1)
			}
			r.readerEnded(err)
		})
	}
}

// staysOpen says that the plan that replaces this one continues with a plugin.
func (r *Run) staysOpen(plugin any) bool {
	return r.Replacing() && r.Next.Plugins.Has(plugin)
}

func (r *Run) readerEnded(err error) {
	if err != nil {
		r.Log.Error("input ended", "err", err)
		r.note(err)
	}
	r.intake.reading.Add(-1)
	r.balance.quiesce()
}

// Fail ends the run early with an error.
func (v *verdict) Fail(err error) {
	if err == nil {
		return
	}
	v.note(err)
	v.failed.Do(func() { close(v.Failing) })
}

func (v *verdict) note(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		v.err = guard.Masked(v.secrets, err)
	}
}

// Failed is why the run has failed, or nil.
func (v *verdict) Failed() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// CloseQueues ends lanes and workers when they are done with the batch at hand.
func (r *Run) CloseQueues() {
	r.feed.queue.Close()
	for _, s := range r.writing.stages {
		s.close()
	}
}

// Retires says whether a write still uses an output. If so, the output is closed when that write comes back.
func (r *Run) Retires(plugin any) bool {
	for _, o := range r.writing.sinks {
		if o.retire(plugin) {
			return true
		}
	}
	return false
}
