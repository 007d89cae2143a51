package engine

import (
	"context"
	"errors"
	"time"
)

// errDown fails messages that a fallback need not keep waiting.
var errDown = errors.New("nothing is written to it for now")

// detour takes messages that another output of a fallback can take, while this one
// does not work: they wait neither for a probe nor for the budget. o.mu is held.
func (o *outRun) detour() *Batch {
	for _, from := range []*slabList{&o.again, &o.ready} {
		if head := from.head; head != nil && len(head.msgs) > 0 && head.msgs[0].via.next() != nil {
			b := from.pop(len(head.msgs))
			b.detour = true
			return b
		}
	}
	return nil
}

// down is why a message makes a detour.
func (o *outRun) down() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Errorf(Transient, "%w: %s", errDown, o.figures.err)
}

// passOn sends messages on that make a detour, once their batcher's steps have run.
func (w *writer) passOn(ctx context.Context, b *Batch) {
	was := b.stage
	b = w.batchSteps(ctx, b)
	why := w.out.down()
	rest := b.like()
	rest.stage = max(was, inOutput)
	for i := range b.msgs {
		m := &b.msgs[i]
		switch {
		case m.state != live:
		case m.via.next() == nil:
			if was < inOutput {
				m.pc = 0
			}
			m.stage = rest.stage
			rest.take(m)
		default:
			m.Fail(why)
			m.err.FirstFailed = time.Now()
			if tr := m.trial; tr != nil {
				m.err.Attempt, m.err.FirstFailed = tr.attempts, tr.first
			}
		}
	}
	if len(rest.msgs) > 0 {
		rest.arena = nil
		w.out.pushAgain(rest)
	}
	w.finish(b)
}
