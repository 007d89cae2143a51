package flow

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Timers has the timers of a run: for slabs that wait for another attempt, for messages that wait for a rate limit, and for
// probes of outputs. One loop serves all of them, so that a message that waits costs no goroutine. Timers is safe for
// concurrent use.
type Timers struct {
	wake chan struct{} // has room for one

	mu   sync.Mutex // guards the field below
	heap timerHeap
	seq  uint64
}

type timer struct {
	due  time.Time
	seq  uint64 // the order of equal times
	fire func()
	b    *engine.Batch // the messages that wait; nil: p waits, if it is set
	p    Waiting       // the message that waits, if it is parked
}

// NewTimers makes timers that fire once Loop runs.
func NewTimers() *Timers { return &Timers{wake: make(chan struct{}, 1)} }

// After calls fire in the loop at a time, unless the run ends before. b has the messages that wait for it; nil: none do.
func (t *Timers) After(due time.Time, b *engine.Batch, fire func()) {
	t.Add(&timer{due: due, fire: fire, b: b})
}

// Waiting is a parked message.
type Waiting interface {
	Message() *engine.Message
	Awaits() (place, err string) // what it waits for, and the error that made it wait
}

// Aside is like After, for a parked message.
func (t *Timers) Aside(due time.Time, p Waiting, fire func()) {
	t.Add(&timer{due: due, fire: fire, p: p})
}

// Add sets a timer.
func (t *Timers) Add(x *timer) {
	t.mu.Lock()
	t.seq++
	x.seq = t.seq
	heap.Push(&t.heap, x)
	first := t.heap[0].seq == t.seq
	t.mu.Unlock()
	if first {
		t.poke()
	}
}

func (t *Timers) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Each calls f for all messages that wait: those of b, or p. It holds the lock meanwhile.
func (t *Timers) Each(f func(due time.Time, b *engine.Batch, p Waiting)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.heap {
		if x.b != nil || x.p != nil {
			f(x.due, x.b, x.p)
		}
	}
}

// Loop fires timers until ctx ends.
func (t *Timers) Loop(ctx context.Context) {
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	for {
		next := t.fireDue(time.Now())
		if next.IsZero() {
			clock.Stop()
		} else {
			clock.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-clock.C:
		}
	}
}

// fireDue fires all timers that are due, and returns when the next one is due; zero: there is none.
func (t *Timers) fireDue(now time.Time) time.Time {
	for {
		t.mu.Lock()
		if len(t.heap) == 0 {
			t.mu.Unlock()
			return time.Time{}
		}
		if next := t.heap[0].due; next.After(now) {
			t.mu.Unlock()
			return next
		}
		x := heap.Pop(&t.heap).(*timer)
		t.mu.Unlock()
		x.fire()
	}
}

// Beyond removes the timers of slabs that are due after a time, and returns the slabs.
func (t *Timers) Beyond(deadline time.Time) (late []*engine.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rest timerHeap
	for _, x := range t.heap {
		if x.b != nil && x.due.After(deadline) {
			late = append(late, x.b)
		} else {
			rest = append(rest, x)
		}
	}
	t.heap = rest
	heap.Init(&t.heap)
	return late
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}
