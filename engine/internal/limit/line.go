package limit

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// WaitLine is where one goroutine that has messages at hand stands at the limits that hold
// for them. Messages pass all of the limits at one time, so that none counts where it
// could not yet pass another.
type WaitLine struct {
	Limits []*Limiter // in the order in which they are locked
	at     *Limiter   // of which the next place has been booked; nil: of none
	place  uint64
	due    int64 // of the limit's clock
}

// NewLine stands at those limits that are not nil and not kept by steps, as keyed ones are.
func NewLine(limits ...*Limiter) WaitLine {
	limits = slices.DeleteFunc(slices.Clone(limits), func(l *Limiter) bool { return l == nil || l.Keyed() })
	slices.SortFunc(limits, func(a, b *Limiter) int { return cmp.Compare(a.number, b.number) })
	return WaitLine{Limits: slices.Compact(limits)}
}

// Ask takes up to n that may pass now. When there are none, it stands behind all others
// at the limit in the way: it is to ask again after wait, or when the limit changes.
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
		if q.at != nil { // its turn there has come, and can't be taken
			q.at.leave(q.place)
		}
		wait = full.book(&full.all)
		q.at, q.place, q.due = full, full.booked, full.clock.last+int64(wait)
	}
	return 0, time.Duration(q.due - full.clock.last), full.changed
}

// holds says that the place that was booked at a limit may be taken; the limit's lock is held.
func (q *WaitLine) holds(l *Limiter) bool { return q.at == l && l.clock.last >= q.due }

// Quit gives up the place that was booked.
func (q *WaitLine) Quit() {
	if q.at != nil {
		q.at.mu.Lock()
		defer q.at.mu.Unlock()
		q.at.leave(q.place)
		q.at = nil
	}
}

// Free is how many messages could pass all limits now. When there are none, one that is
// at hand then has to wait that long, or a window's length and then in line, where so many
// have booked that there is always somebody before it. There are no more than two limits.
func (q *WaitLine) Free(now time.Time) (n int, wait time.Duration, changed [2]<-chan struct{}) {
	n = inside.SlabSize
	for i, l := range q.Limits {
		changed[i] = l.Changed()
		free, w := l.Free(now)
		n, wait = min(n, free), max(wait, min(w, l.State().Per))
	}
	return n, wait, changed
}

// Stands waits for d, for a limit's change, or until done is closed, which it says.
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
