package limit

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// WaitLine lets one goroutine wait for several limits that apply to its messages. A message passes all limits at the same
// time, so that it does not count at one limit while it waits for another.
type WaitLine struct {
	Limits []*Limiter // in the order in which they are locked
	at     *Limiter   // where a place is booked; nil: nowhere
	place  uint64
	due    int64 // of the limit's clock
}

// NewLine makes a line for limits. It leaves out nil, and keyed limits, which steps apply.
func NewLine(limits ...*Limiter) WaitLine {
	limits = slices.DeleteFunc(slices.Clone(limits), func(l *Limiter) bool { return l == nil || l.Keyed() })
	slices.SortFunc(limits, func(a, b *Limiter) int { return cmp.Compare(a.number, b.number) })
	return WaitLine{Limits: slices.Compact(limits)}
}

// Ask lets up to n messages pass now, and returns how many. If none may pass, it books a place behind all others at the
// limit that prevents it; the caller asks again after wait, or when changed is closed.
func (q *WaitLine) Ask(now time.Time, n int) (got int, wait time.Duration, changed <-chan struct{}) {
	got = n
	var full *Limiter
	for _, l := range q.Limits {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ask(now)
		l.renew(&l.all)
		free := l.free(&l.all)
		if q.holds(l) {
			free++
		}
		if got = min(got, free); free == 0 {
			full = l
		}
	}
	switch {
	case got > 0:
		for _, l := range q.Limits {
			if q.holds(l) {
				l.take(got - 1)
			} else {
				l.take(got)
			}
		}
		q.at = nil
		return got, 0, nil
	case q.at != full:
		if q.at != nil { // the booked time has come, but another limit prevents it
			q.at.leave(q.place)
		}
		wait = full.book(&full.all)
		q.at, q.place, q.due = full, full.booked, full.clock.last+int64(wait)
	}
	return 0, time.Duration(q.due - full.clock.last), full.changed
}

// holds says that the time of the place at a limit has come; the limit's lock is held.
func (q *WaitLine) holds(l *Limiter) bool { return q.at == l && l.clock.last >= q.due }

// Quit gives up the booked place.
func (q *WaitLine) Quit() {
	if q.at != nil {
		q.at.mu.Lock()
		defer q.at.mu.Unlock()
		q.at.leave(q.place)
		q.at = nil
	}
}

// Free returns how many messages could pass all limits now. If it is 0, a message has to wait at least that long; if so many
// places are booked that somebody is always before it, it waits for one period and then in line. There are at most two
// limits.
func (q *WaitLine) Free(now time.Time) (n int, wait time.Duration, changed [2]<-chan struct{}) {
	n = inside.SlabSize
	for i, l := range q.Limits {
		changed[i] = l.Changed()
		free, w := l.Free(now)
		n, wait = min(n, free), max(wait, min(w, l.State().Per))
	}
	return n, wait, changed
}

// Stands waits for d, until changed is closed, or until done is closed. It returns true if done is closed.
func (q *WaitLine) Stands(d time.Duration, changed <-chan struct{}, done <-chan struct{}) (over bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
		q.Quit()
	case <-done:
		return true
	}
	return false
}
