package stage

import (
	"cmp"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// retryLater takes a message that is to be tried again. The message waits beside the queues, in one slab with messages that
// failed together with it.
func (out *outcome) retryLater(m *engine.Message, at *stage) {
	tr := retry.TrialOf(m)
	room := steps.ForRoom(tr)
	if out.Handing() || !room && out.TooLate(tr.Due) { // the drain ends before the next attempt
		out.handBack(m)
		return
	}
	if wait := time.Until(tr.Due); wait > leftToSource && sourceDelays(m) >= wait && !out.layout.Ordered {
		msg(m).Err.Delay = wait
		out.endPiece(m, engine.Returned)
		return
	}
	if tr.Cause == nil {
		msg(m).Stage = inside.AtWrite
	}
	out.holdKeys(m, at)
	out.leaveLanes(m)
	msg(m).State = inside.Live
	for _, b := range out.waiting {
		if !room && out.alike(b, m, at) {
			tr.Due = retry.TrialOf(&slab(b).Msgs[0]).Due
			slab(b).Take(m)
			return
		}
	}
	b := likeOf(msg(m).Batch)
	slab(b).Stage = msg(m).Stage
	setInput(b, out.in)
	setStage(b, at)
	slab(b).Take(m)
	out.waiting = append(out.waiting, b)
}

// alike says whether m is tried again at the same time and place as the messages of b.
func (out *outcome) alike(b *engine.Batch, m *engine.Message, at *stage) bool {
	first := &slab(b).Msgs[0]
	one, other := retry.TrialOf(first), retry.TrialOf(m)
	return len(slab(b).Msgs) < inside.SlabSize && !steps.ForRoom(one) &&
		stageOf(b) == at && inputOf(b) == out.in && slab(b).Stage == msg(m).Stage && msg(first).Batch == msg(m).Batch &&
		one.Cause == other.Cause && one.Attempts == other.Attempts && one.Err.Delay == other.Err.Delay
}

// likeOf is an empty batch for messages that leave b, which may be nil. They may outlive it.
func likeOf(b *engine.Batch) *engine.Batch {
	if b == nil {
		return new(engine.Batch)
	}
	like := slab(b).Like()
	slab(like).Arena = nil
	return like
}

// leftToSource is the wait beyond which a source that can delay one message gets it back, with that delay.
const leftToSource = 10 * time.Second

// sourceDelays is how long the source of m can delay it; 0 if it can't, or if m is only a part of the message that was read.
func sourceDelays(m *engine.Message) time.Duration {
	r := ledger.RootOf(m)
	if r.Led == nil || msg(m).Part > 0 || len(msg(m).Of) > 0 || r.Led.Roots[r.I].Pieces() != 1 {
		return 0
	}
	return r.Led.Delays
}

// holdKeys makes m hold its order keys where it is, or, in an input's own steps, its place.
func (out *outcome) holdKeys(m *engine.Message, at *stage) {
	if out.in != nil {
		out.holds.LeaveGap(m)
		return
	}
	out.holds.Own(m, at.keyPlace())
}

// arm gives the slabs of messages that are to be tried again to the timers.
func (out *outcome) arm() {
	r := out.settlement
	for i, b := range out.waiting {
		out.waiting[i] = nil
		tr := retry.TrialOf(&slab(b).Msgs[0])
		n, text := 0, []byte(nil)
		for i := range slab(b).Msgs {
			m := &slab(b).Msgs[i]
			text = msg(m).CopyOut(text)
			n += flow.Weight(m)
			msg(m).Batch, msg(m).Err = nil, retry.TrialOf(m).Reason
		}
		r.credits.Keep(n)
		r.retrying.Add(int64(len(slab(b).Msgs)))
		if steps.ForRoom(tr) {
			r.lineUp(b)
			continue
		}
		r.layout.EmitEvent(engine.Event{Kind: engine.EventRetry, Name: cmp.Or(tr.Err.Output, tr.Err.Step), N: len(slab(b).Msgs),
			Err: tr.Err})
		if at := stageOf(b); at != nil {
			at.exit.wait(b)
		}
		r.timers.After(tr.Due, b, func() { r.retry(b) })
	}
	out.waiting = out.waiting[:0]
}

// lineUp makes a message wait for the credits in bytes that it lacks. Then the message continues.
func (r *settlement) lineUp(b *engine.Batch) {
	m := &slab(b).Msgs[0]
	grown := msg(m).Charge - len(msg(m).Orig)
	goOn := func(bytes int) {
		msg(m).Charge += bytes
		slab(b).Bytes += bytes
		retry.TrialOf(m).Room = bytes
		r.timers.After(time.Now(), b, func() { r.retry(b) })
	}
	r.credits.LineUp(&flow.InLine{Bytes: retry.TrialOf(m).Lacked, Msgs: flow.Weight(m), Grown: grown, GoOn: goOn})
}

// retry releases messages that have waited for another attempt.
func (r *settlement) retry(b *engine.Batch) {
	r.settle(func(out *outcome) {
		r.waited(b)
		out.resume(b, stageOf(b))
	})
}

// waited counts that the messages of b no longer wait.
func (r *settlement) waited(b *engine.Batch) {
	n := 0
	for i := range slab(b).Msgs {
		n += flow.Weight(&slab(b).Msgs[i])
	}
	r.retrying.Add(int64(-len(slab(b).Msgs)))
	r.credits.Keep(-n)
}

// resume sends a slab back to where its messages take up again: a lane, or a stage.
func (out *outcome) resume(b *engine.Batch, at *stage) {
	if at != nil {
		slab(b).Way.Out = nil
		if steps.ForRoom(retry.TrialOf(&slab(b).Msgs[0])) { // no attempt has failed, so the retry budget is not for it
			at.arrive(b)
		} else {
			again{at}.Push(b)
		}
		return
	}
	for i := range slab(b).Msgs {
		out.beyond -= flow.Weight(&slab(b).Msgs[i])
	}
	out.lanes.Push(b)
}

// again sends messages back to a stage for another attempt.
type again struct{ *stage }

func (a again) Push(b *engine.Batch) {
	a.exit.come(len(slab(b).Msgs))
	a.pushAgain(b)
}
