package stage

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// sink is what an output's stage writes to. It holds the stage's workers while the output is down, and finds how
// many of them may write at once. The stage's lock guards its fields.
type sink struct {
	*stage
	plan    *OutputPlan
	auto    *retry.Adaptive // finds most; nil: it is configured
	gate    retry.Gate
	budget  retry.Budget
	paid    time.Time // when the budget allows the next retry; zero: no retry waits for it
	at      *instance // the one that new writes use
	feeding *feeding
	starved bool // readers need not read for it
	figures outFigures
}

func newSink(s *settlement, f *feeding, plan *OutputPlan) *sink {
	o := &sink{feeding: f, plan: plan, budget: retry.NewBudget(), at: &instance{out: plan.Out}}
	o.figures.took = guard.NewHistogram(guard.LatencyBounds)
	o.stage = newStage(s, plan.Name, plan.Steps, plan.Concurrency, o)
	o.spot = plan.Spot
	o.failure = plan.Failure
	o.gate.Plan = plan.Breaker
	if plan.Concurrency > 1 {
		o.chains = map[string][]*entry{}
	}
	if plan.Auto {
		o.auto = retry.NewAdaptive(plan.Concurrency)
		o.most = o.auto.Limit()
	}
	return o
}

func (o *sink) worker() *worker {
	w := newWorker(o.stage)
	w.writer = &writer{worker: w, sink: o, line: limit.NewLine(o.plan.Limit)}
	return w
}

// come counts nothing: messages for an output do not go back to the lanes.
func (o *sink) come(int) {}

// forward does nothing: a message that is live after a write has been moved.
func (o *sink) forward(*outcome, *engine.Message) {}

// next is a batch to write, or a probe, when the gate lets it through.
func (o *sink) next() (b *engine.Batch, probe bool) {
	limit := o.plan.writes()
	if o.gate.Shut {
		if !o.gate.Due(time.Now()) {
			return o.detour(), false
		}
		if o.gate.Reopen && o.stuck() >= mostStuck {
			return nil, false // when a call returns, the workers look again
		}
		if _, can := o.at.out.(engine.Prober); can && !o.gate.Half || o.gate.Reopen {
			o.gate.Probing = true
			return nil, true
		}
		limit, probe = 1, true
	}
	from := &o.ready
	if untried := probe && o.leastTried() > 0 && o.ready.Head != nil; !untried && o.again.Head != nil && o.pays(probe) {
		from = &o.again
	}
	if from.Head == nil {
		return nil, false
	}
	o.gate.Probing = probe
	return o.takeFrom(from, limit), probe
}

// serve probes the output, or writes b behind its steps.
func (o *sink) serve(ctx context.Context, w *worker, b *engine.Batch, probe bool) bool {
	if b == nil {
		o.probe(ctx)
		return true
	}
	detour := slab(b).Way.Detour
	if b = w.beginBatch(b); detour {
		o.passOn(ctx, w, b)
	} else {
		b = w.steps(ctx, b)
		if !w.writer.writeAll(ctx, b, probe) {
			o.returned(w)
			return false
		}
		w.finish(b, nil)
	}
	if probe { // there may have been nothing to write
		o.mu.Lock()
		o.gate.Probing = false
		o.feedProbe()
		o.mu.Unlock()
	}
	w.endBatch()
	return true
}

// leastTried moves the messages with the fewest attempts to the front of the queue for another attempt, and returns that
// number. So a long outage does not use up the attempts of the messages that happen to be probes. o.mu is held.
func (o *sink) leastTried() int {
	least, at, slabs := math.MaxInt, o.again.At, 0
	for b := o.again.Head; b != nil; b = slab(b).Next {
		least = min(least, retry.TrialOf(&slab(b).Msgs[at]).Tries())
		at = 0
		slabs++
	}
	for ; slabs > 0 && retry.TrialOf(&slab(o.again.Head).Msgs[o.again.At]).Tries() > least; slabs-- {
		o.again.Push(o.again.Pop(len(slab(o.again.Head).Msgs) - o.again.At))
	}
	return least
}

// pays says whether the budget allows another retry. If not, the workers look again when it will. A probe is free.
func (o *sink) pays(probe bool) bool {
	now := time.Now()
	if probe || now.Before(o.paid) {
		return probe
	}
	ok, at := o.budget.Take(now)
	if o.paid = at; !ok {
		o.timers.After(at, nil, o.wake)
	}
	return ok
}

// wake makes the writers look again.
func (o *sink) wake() {
	o.mu.Lock()
	o.feedProbe()
	o.mu.Unlock()
	o.cond.Broadcast()
	o.balance.relieve()
}

// feedProbe feeds an output that is to be probed and has nothing to write: its next message is the probe. o.mu is held.
func (o *sink) feedProbe() {
	if o.gate.Shut && o.gate.Due(time.Now()) && o.ready.Head == nil && o.again.Head == nil {
		o.feed(true)
	}
}

// hungry says whether a writer waits for something to write.
func (o *sink) hungry() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle > 0 && o.ready.Head == nil && o.again.Head == nil && (!o.gate.Shut || o.gate.Due(time.Now()))
}

// crowded says whether more than msgs messages or so many bytes wait for each writer. A held output is not crowded: credits
// bound its queue.
func (o *sink) crowded(msgs, bytes int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready.Crowded(msgs*o.plan.writes()/inside.SlabSize*o.most, bytes) && !o.gate.Shut
}

// emitWrite tells hooks of a write.
func (o *sink) emitWrite(s written) {
	e := engine.Event{Kind: engine.EventWrite, Name: o.plan.Name, N: s.done + s.failed, Took: s.took}
	if s.err != nil {
		e.Err = s.err
	}
	o.layout.EmitEvent(e)
}

// wrote records the outcome of a write by the instance at.
func (o *sink) wrote(at *instance, s written) {
	o.emitWrite(s)
	o.mu.Lock()
	defer o.released(at)
	o.figures.wrote(s)
	o.budget.Earn(s.done)
	if o.auto != nil {
		o.auto.Ended(time.Now(), s.took, o.working, s.faulty())
		o.most = o.auto.Limit()
	}
	switch {
	case s.stays != nil && s.done == 0:
		o.fails(s.stays, s.said, true, s.probe)
	case !s.faulty():
		o.works()
	case s.err.Class != engine.Permanent:
		o.fails(s.err, s.said, s.err.HoldsOutput(), s.probe)
	}
}

// shut returns why nothing may be written now; nil: writes may be made. o.mu is held.
func (o *sink) shut() *engine.Error {
	if !o.gate.Shut {
		return nil
	}
	return o.gate.Err
}

// works opens the gate after a successful write or probe; o.mu is held.
func (o *sink) works() {
	o.figures.worked()
	if !o.gate.Worked() {
		return
	}
	o.Log.Info("output is up again", "output", o.plan.Name)
	o.layout.EmitEvent(engine.Event{Kind: engine.EventConnected, Name: o.plan.Name})
	o.cond.Broadcast()
	o.feed(true)
}

// fails records a failed write or probe, which may shut the gate; with holds it shuts the gate at once. said is the error to
// show. o.mu is held.
func (o *sink) fails(err *engine.Error, said error, holds, probe bool) {
	was := o.gate.Shut
	o.figures.fails(said)
	if shuts, wait := o.gate.Failed(err, holds, probe); shuts {
		o.shuts(was, wait, "output is down: nothing is written until a probe succeeds", said)
	}
}

// shuts logs that the gate is shut, as often as [retry.Outage] says, and sets the timer of the next probe; o.mu is held.
func (o *sink) shuts(was bool, wait time.Duration, why string, err error) {
	now := time.Now()
	o.timers.After(now.Add(wait), nil, o.wake)
	o.feed(false)
	log := o.Log
	switch report := o.gate.Outage.Fails(now, o.gate.Err); {
	case !was:
	case report == retry.Changes:
		why = "output is still down: the error has changed"
	case report == retry.Lasts:
		why, log = "output is still down", log.With("for", o.gate.Outage.Lasted(now))
	default:
		return
	}
	args := []any{"output", o.plan.Name, "err", err, "next_probe_in", wait.Round(time.Millisecond)}
	if !was && o.keepsDeadLetters() {
		args = append(args, "hint", "its messages wait: set retry.max_age if they are to become dead letters")
	}
	log.Error(why, args...)
	if !was {
		o.layout.EmitEvent(engine.Event{Kind: engine.EventLost, Name: o.plan.Name, Err: err})
	}
}

// keepsDeadLetters says whether failed messages of the output would become dead letters, but wait without limit while it is
// down.
func (o *sink) keepsDeadLetters() bool {
	p := &o.layout.Failure
	if o.failure != nil {
		p = o.failure
	}
	return o.plan.Feeds && p.sends() && o.plan.Retry.MaxAge == 0
}

// feed says whether the output may be fed. While no output may, readers pause. o.mu is held.
func (o *sink) feed(may bool) {
	if o.starved == !may || !o.plan.Feeds {
		return
	}
	o.starved = !may
	o.feeding.change(may)
}

// feeding pauses reading while every output that takes more than dead letters is held.
type feeding struct {
	credits *flow.Credits
	outputs int64        // that take more than dead letters
	held    atomic.Int64 // of them
}

// change notes that one more output may be fed, or one less.
func (f *feeding) change(may bool) {
	n := int64(1)
	if may {
		n = -1
	}
	f.credits.Close(f.held.Add(n) == f.outputs)
}

// probe asks the output, or opens a new instance of it.
func (o *sink) probe(ctx context.Context) {
	o.mu.Lock()
	reopen, at := o.gate.Reopen, o.at
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, o.plan.Timeout)
	defer cancel()
	var err error
	if reopen {
		err = o.reopen(ctx)
	} else {
		err = guard.Guard(ctx, at.out.(engine.Prober).Probe)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.working--
	switch {
	case err != nil:
		failed := engine.ErrorOf(err, engine.Transient)
		failed.Mask(o.layout.Secrets)
		o.ages(failed)
		o.fails(failed, failed, failed.HoldsOutput(), true)
		return
	case reopen: // the next write shows whether it works
		o.gate.Probing, o.gate.Until = false, time.Time{}
	default:
		if o.gate.Probed(); o.gate.Reached() {
			o.figures.worked()
		}
		if o.ready.Head == nil && o.again.Head == nil {
			o.feed(true) // the next message is the probe
		}
	}
	o.cond.Broadcast()
}

// ages starts max_age for messages that wait to be written and were never tried, since a probe has failed. o.mu is held.
func (o *sink) ages(failed *engine.Error) {
	now, at, last := time.Now(), o.ready.At, time.Time{}
	for b := o.ready.Head; b != nil; b = slab(b).Next {
		for i := range slab(b).Msgs[at:] {
			m := &slab(b).Msgs[at+i]
			if most := o.plan.retryOf(m).MaxAge; most > 0 && retry.TrialOf(m) == nil {
				retry.SetTrial(m, &retry.Trial{First: now, Err: failed})
				last = now.Add(most + time.Millisecond)
			}
		}
		at = 0
	}
	if !last.IsZero() {
		o.timers.After(last, nil, o.cond.Broadcast)
	}
}

// errDown fails messages that another output of a fallback can take.
var errDown = errors.New("nothing is written to it at present")

// detour takes messages that do not wait until this output is up again: another output of a fallback can take them, or
// they are older than max_age. o.mu is held.
func (o *sink) detour() *engine.Batch {
	now := time.Now()
	for _, from := range []*flow.SlabList{&o.again, &o.ready} {
		head := from.Head
		if head == nil || len(slab(head).Msgs) == 0 {
			continue
		}
		if branchOf(&slab(head).Msgs[0]).next() != nil || o.tooOld(&slab(head).Msgs[from.At], now) {
			b := from.Pop(len(slab(head).Msgs))
			slab(b).Way.Detour = true
			return b
		}
	}
	return nil
}

// tooOld says whether a message that was tried is older than max_age.
func (o *sink) tooOld(m *engine.Message, now time.Time) bool {
	most, tr := o.plan.retryOf(m).MaxAge, retry.TrialOf(m)
	return most > 0 && tr != nil && tr.Err != nil && !tr.First.IsZero() && now.Sub(tr.First) > most
}

// wait sets a timer for the time when the messages of b reach max_age: the output may be held by then.
func (o *sink) wait(b *engine.Batch) {
	m := &slab(b).Msgs[0]
	if slab(b).Stage != inside.AtWrite {
		return
	}
	if most, tr := o.plan.retryOf(m).MaxAge, retry.TrialOf(m); most > 0 && tr.Err.HoldsOutput() {
		o.timers.After(tr.First.Add(most+time.Millisecond), nil, o.cond.Broadcast)
	}
}

// down is the error of messages that make a detour.
func (o *sink) down() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gate.Err == nil { // the gate was shut in the plan before
		return engine.Errorf(engine.Transient, "%w", errDown)
	}
	return engine.Errorf(engine.Transient, "%w: %s", errDown, o.gate.Err.Error())
}

// passOn runs the steps of the batcher over messages that make a detour, and sends them on.
func (o *sink) passOn(ctx context.Context, w *worker, b *engine.Batch) {
	was := slab(b).Stage
	b = w.batchSteps(ctx, b)
	why, now := o.down(), time.Now()
	rest := likeOf(b)
	slab(rest).Stage = max(was, inside.InOutput)
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		switch {
		case msg(m).State != inside.Live:
		case o.tooOld(m, now):
			m.Fail(retry.TrialOf(m).Err)
		case branchOf(m).next() == nil:
			if was < inside.InOutput {
				msg(m).PC = 0
			}
			msg(m).Stage = slab(rest).Stage
			slab(rest).Take(m)
		default:
			m.Fail(why)
			msg(m).Err.FirstFailed = now
			if tr := retry.TrialOf(m); tr != nil {
				msg(m).Err.Attempt, msg(m).Err.FirstFailed = tr.Attempts, tr.First
			}
		}
	}
	if len(slab(rest).Msgs) > 0 {
		o.pushAgain(rest)
	}
	w.finish(b, nil)
}

// retry takes over a message that has failed in a write, if there is to be another.
func (o *sink) retry(out *outcome, m *engine.Message) bool {
	if msg(m).Err.Step != "" { // a step has failed it
		return false
	}
	err := msg(m).Err
	err.Output = o.plan.Name
	steps.Complete(err, engine.Transient)
	if errors.Is(err, engine.ErrBehind) && o.behind(out, m) {
		return true
	}
	if errors.Is(err, errDown) || !o.plan.retryOf(m).Again(m, time.Now(), err.HoldsOutput(), err.HoldsOutput()) {
		return false
	}
	out.retryLater(m, o.stage)
	return true
}

// behind takes a message that was not written because an earlier message of its key failed. It waits for that message, or
// is queued again if that message has moved on.
func (o *sink) behind(out *outcome, m *engine.Message) bool {
	if !o.layout.Ordered || o.Handing() {
		return false
	}
	msg(m).State, msg(m).Err, msg(m).Stage = inside.Live, nil, inside.AtWrite
	if retry.TrialOf(m) != nil {
		msg(m).Err = retry.TrialOf(m).Reason
	}
	o.holds.Own(m, o.keyPlace()) // queued messages are later
	if o.holds.Passes(nil, m, o.keyPlace()) {
		out.sendWithBatch(o.stage, m, inside.AtWrite)
	}
	return true
}
