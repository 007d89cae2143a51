package engine

import (
	"context"
	"errors"
	"time"
)

// errDown fails messages that a fallback need not keep waiting.
var errDown = errors.New("nothing is written to it for now")

// detour takes messages that another output of a fallback can take, while this one
// does not work: they wait neither for a probe nor for the budget. So do those that
// have waited as long as they may. o.mu is held.
func (o *outRun) detour() *Batch {
	now := time.Now()
	for _, from := range []*slabList{&o.again, &o.ready} {
		if head := from.head; head != nil && len(head.in.Msgs) > 0 && (viaOf(&head.in.Msgs[0]).next() != nil || o.tooOld(&head.in.Msgs[from.at], now)) {
			b := from.pop(len(head.in.Msgs))
			b.in.Way.detour = true
			return b
		}
	}
	return nil
}

// tooOld says that a message has been tried, and waits, for longer than it may.
func (o *outRun) tooOld(m *Message, now time.Time) bool {
	most := o.plan.retryOf(m).MaxAge
	return most > 0 && trialOf(m) != nil && trialOf(m).err != nil && !trialOf(m).first.IsZero() && now.Sub(trialOf(m).first) > most
}

// expires has an output that is held looked at when the messages of b have waited for
// as long as they may.
func (o *outRun) expires(b *Batch) {
	m := &b.in.Msgs[0]
	if most := o.plan.retryOf(m).MaxAge; most > 0 && trialOf(m).err.HoldsOutput() {
		o.r.timers.after(trialOf(m).first.Add(most+time.Millisecond), nil, o.cond.Broadcast)
	}
}

// down is why a message makes a detour.
func (o *outRun) down() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gate.err == nil { // the plan before has left it so
		return Errorf(Transient, "%w", errDown)
	}
	return Errorf(Transient, "%w: %s", errDown, o.gate.err.Error())
}

// passOn sends messages on that make a detour, once their batcher's steps have run.
func (w *writer) passOn(ctx context.Context, b *Batch) {
	was := b.in.Stage
	b = w.batchSteps(ctx, b)
	why, now := w.out.down(), time.Now()
	rest := b.in.Like()
	rest.in.Stage = max(was, inOutput)
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		switch {
		case m.in.State != live:
		case w.out.tooOld(m, now):
			m.Fail(trialOf(m).err)
		case viaOf(m).next() == nil:
			if was < inOutput {
				m.in.PC = 0
			}
			m.in.Stage = rest.in.Stage
			rest.in.Take(m)
		default:
			m.Fail(why)
			m.in.Err.FirstFailed = now
			if tr := trialOf(m); tr != nil {
				m.in.Err.Attempt, m.in.Err.FirstFailed = tr.attempts, tr.first
			}
		}
	}
	if len(rest.in.Msgs) > 0 {
		rest.in.Arena = nil
		w.out.pushAgain(rest)
	}
	w.finish(b)
}
