package stage

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// keepPace waits until lanes and outputs have caught up, or ctx ends.
func (rd *reader) keepPace(ctx context.Context) {
	if !rd.balance.crowded(1) {
		return
	}
	rd.waits(true)
	defer rd.waits(false)
	rd.balance.intake.pace.Wait(ctx, rd.balance.ease)
}

// waits shows whether the reader waits for credits. If it reads what is pushed, it interrupts Reads that hold credits while
// their sources have nothing.
func (rd *reader) waits(yes bool) {
	if yes && rd.index == pushed {
		rd.layout.Pauses.Interrupt()
	}
	if yes {
		rd.figures.setState("waiting")
	} else {
		rd.figures.setState("reading")
	}
}

// room waits until messages may be read, and returns how many; 0: ctx has ended. Limits count messages after the Read, so a
// reader with a slow source takes nothing from the limits of others.
func (rd *reader) room(ctx context.Context) (n int) {
	for ctx.Err() == nil {
		want := min(rd.want(), rd.mayPass(ctx))
		if want > 0 && rd.plan.Bounded {
			want = rd.replayRoom(ctx, want)
		}
		if want == 0 {
			return 0
		}
		if n = rd.credits.Read(ctx, want, rd.index == pushed, rd.waits); n > 0 {
			return n
		}
	}
	return 0
}

func (rd *reader) want() int {
	switch {
	case rd.mean > 0:
		return min(max(inside.ReadBytes/rd.mean, 1), inside.SlabSize)
	case rd.began:
		return inside.SlabSize
	}
	rd.began = true
	return inside.SlabSize / 16 // to learn how long messages are
}

// mayPass waits until the limits would let a message pass, and says how many may be read. It is at least one, since only
// messages that were read can queue at a limit.
func (rd *reader) mayPass(ctx context.Context) int {
	for ctx.Err() == nil {
		n, wait, changed := rd.line.Free(time.Now())
		if n > 0 {
			return n
		}
		over := rd.limited(time.Now().Add(wait))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			over()
			n, _, _ := rd.line.Free(time.Now())
			return max(1, n)
		case <-changed[0]:
		case <-changed[1]:
		case <-ctx.Done():
		}
		t.Stop()
		over()
	}
	return 0
}

// limited shows that the reader waits for a limit, until over is called.
func (rd *reader) limited(until time.Time) (over func()) {
	rd.figures.setState("limited")
	in, told := rd.in.(engine.Limited)
	if told {
		in.Limited(until)
	}
	return func() {
		rd.figures.setState("reading")
		if told {
			in.Limited(time.Time{})
		}
	}
}

// replayRoom waits until max_replay allows more messages, and says how many; 0: ctx has ended.
func (rd *reader) replayRoom(ctx context.Context, want int) int {
	waiting, p := &rd.balance.intake.replaying, &rd.replay
	for {
		if n := min(want, rd.layout.MaxReplay-p.Span(rd.read.Load())); n > 0 {
			return n
		}
		waiting.Add(1)
		rd.figures.setState("waiting")
		rd.balance.relieve()
		select {
		case <-p.Moved:
		case <-ctx.Done():
		}
		rd.figures.setState("reading")
		waiting.Add(-1)
		if ctx.Err() != nil {
			return 0
		}
	}
}

// admit sends on messages that were read, as the limits allow. When ctx has ended, messages that can't pass in time go back
// to their source, or to the next plan.
func (rd *reader) admit(ctx, work context.Context, b *engine.Batch) {
	var hand flow.SlabList
	for hand.Push(b); hand.Head != nil; {
		n, wait, changed := rd.line.Ask(time.Now(), hand.Msgs)
		if n > 0 {
			rd.send(work, hand.Pop(n))
			continue
		}
		done := ctx.Done()
		if ctx.Err() != nil {
			if done = rd.expired.Done(); rd.Replacing() || rd.TooLate(time.Now().Add(wait)) {
				rd.line.Quit()
				rd.handBack(hand.Pop(hand.Msgs))
				return
			}
		}
		over := rd.limited(time.Now().Add(wait))
		rd.line.Stands(wait, changed, done)
		over()
	}
}

// handBack ends messages that had no time to pass the limits, unless the next plan continues with them.
func (rd *reader) handBack(b *engine.Batch) {
	if rd.Replacing() || !rd.Enter() {
		return
	}
	defer rd.Leave()
	out := outcome{settlement: rd.settlement}
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).Err == nil {
			msg(m).Err = engine.Errorf(engine.Transient,
				"the pipeline stopped before a rate limit let this message pass")
		}
		out.handBack(m)
	}
	out.apply()
	flow.Recycle(b)
}
