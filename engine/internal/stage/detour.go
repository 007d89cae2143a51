package stage

import (
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// errDown fails messages that a fallback need not keep waiting.
var errDown = errors.New("nothing is written to it for now")

// detour takes messages that another output of a fallback can take, while this one
// does not work: they wait neither for a probe nor for the budget. So do those that
// have waited as long as they may. o.mu is held.
func (o *outRun) detour() *engine.Batch {
	now := time.Now()
	for _, from := range []*flow.SlabList{&o.again, &o.ready} {
		if head := from.Head; head != nil && len(slab(head).Msgs) > 0 && (viaOf(&slab(head).Msgs[0]).next() != nil || o.tooOld(&slab(head).Msgs[from.At], now)) {
			b := from.Pop(len(slab(head).Msgs))
			slab(b).Way.Detour = true
			return b
		}
	}
	return nil
}

// tooOld says that a message has been tried, and waits, for longer than it may.
func (o *outRun) tooOld(m *engine.Message, now time.Time) bool {
	most := o.plan.retryOf(m).MaxAge
	return most > 0 && retry.TrialOf(m) != nil && retry.TrialOf(m).Err != nil && !retry.TrialOf(m).First.IsZero() && now.Sub(retry.TrialOf(m).First) > most
}

// expires has an output that is held looked at when the messages of b have waited for
// as long as they may.
func (o *outRun) expires(b *engine.Batch) {
	m := &slab(b).Msgs[0]
	if most := o.plan.retryOf(m).MaxAge; most > 0 && retry.TrialOf(m).Err.HoldsOutput() {
		o.r.timers.After(retry.TrialOf(m).First.Add(most+time.Millisecond), nil, o.cond.Broadcast)
	}
}

// down is why a message makes a detour.
func (o *outRun) down() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gate.Err == nil { // the plan before has left it so
		return engine.Errorf(engine.Transient, "%w", errDown)
	}
	return engine.Errorf(engine.Transient, "%w: %s", errDown, o.gate.Err.Error())
}

// passOn sends messages on that make a detour, once their batcher's steps have run.
func (w *writer) passOn(ctx context.Context, b *engine.Batch) {
	was := slab(b).Stage
	b = w.batchSteps(ctx, b)
	why, now := w.out.down(), time.Now()
	rest := slab(b).Like()
	slab(rest).Stage = max(was, inside.InOutput)
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		switch {
		case msg(m).State != inside.Live:
		case w.out.tooOld(m, now):
			m.Fail(retry.TrialOf(m).Err)
		case viaOf(m).next() == nil:
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
		slab(rest).Arena = nil
		w.out.pushAgain(rest)
	}
	w.finish(b)
}
