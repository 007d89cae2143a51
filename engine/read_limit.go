package engine

import (
	"context"
	"time"
)

// Limited is an optional ability of an Input that is pushed to: the goroutine that
// calls Read says until when it waits for a rate limit, so that the input can refuse
// what comes meanwhile, and the zero time when the wait is over.
type Limited interface{ Limited(until time.Time) }

// waits shows whether the reader waits for credits.
func (rd *reader) waits(yes bool) {
	if yes {
		rd.figures.is("waiting")
	} else {
		rd.figures.is("reading")
	}
}

// room is how many messages may be read now; 0 when ctx ended before any may. What
// limits let pass is counted when it was read: a reader whose source is slow takes
// nothing from others.
func (rd *reader) room(ctx context.Context) (n int) {
	for ctx.Err() == nil {
		want := min(rd.want(), rd.mayPass(ctx))
		if want > 0 && rd.plan.takes == TakesPosition {
			want = rd.replayRoom(ctx, want)
		}
		if want == 0 {
			return 0
		}
		if n = rd.r.credits.read(ctx, want, rd.waits); n > 0 {
			return n
		}
	}
	return 0
}

func (rd *reader) want() int {
	switch {
	case rd.mean > 0:
		return min(max(readBytes/rd.mean, 1), slabSize)
	case rd.began:
		return slabSize
	}
	rd.began = true
	return slabSize / 16 // to learn how long they are
}

// mayPass waits until a message that was there now would have passed the limits, and
// says how many may be read: one at least, since only what is at hand stands in line.
func (rd *reader) mayPass(ctx context.Context) int {
	for ctx.Err() == nil {
		n, wait, changed := rd.line.free(time.Now())
		if n > 0 {
			return n
		}
		over := rd.limited(time.Now().Add(wait))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			over()
			n, _, _ := rd.line.free(time.Now())
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
	rd.figures.is("limited")
	in, told := rd.in.(Limited)
	if told {
		in.Limited(until)
	}
	return func() {
		rd.figures.is("reading")
		if told {
			in.Limited(time.Time{})
		}
	}
}

// admit sends on what was read, as the limits let it pass. When reading has ended, as
// ctx says, what can't pass in time goes back, or to the next plan.
func (rd *reader) admit(ctx, work context.Context, b *Batch) {
	r := rd.r
	var hand slabList
	for hand.push(b); hand.head != nil; {
		n, wait, changed := rd.line.ask(time.Now(), hand.msgs)
		if n > 0 {
			rd.send(work, hand.pop(n))
			continue
		}
		done := ctx.Done()
		if ctx.Err() != nil {
			if done = r.expired.Done(); r.replacing() || r.tooLate(time.Now().Add(wait)) {
				rd.line.quit()
				rd.handBack(hand.pop(hand.msgs))
				return
			}
		}
		over := rd.limited(time.Now().Add(wait))
		rd.line.stands(wait, changed, done)
		over()
	}
}

// handBack ends what had no time to pass, unless the next plan goes on with it.
func (rd *reader) handBack(b *Batch) {
	if rd.r.replacing() || !rd.r.enter() {
		return
	}
	defer rd.r.leave()
	t := tally{r: rd.r}
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if m.in.Err == nil {
			m.in.Err = Errorf(Transient, "the pipeline stopped before a rate limit let this message pass")
		}
		t.hand(m)
	}
	t.apply()
	recycle(b)
}
