// Package push is shared by inputs to which clients push requests. A [Door] listens, and a [Queue] holds requests until a Read takes
// their messages; [Queue.Await] waits until those are settled. [Hold] bounds the bytes that wait, [Refusals] answer bodies that are
// not kept, and [References] keeps errors from clients that should not see them.
package push

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Pressure is how long a request may wait for a Read. After that, the pipeline is full or paused; an input can't tell these apart.
const Pressure = time.Second

// Queue is the requests of one input.
type Queue struct {
	timeout    time.Duration
	maxWaiting int64

	slots   chan struct{} // one for each request in flight
	waiting atomic.Int64  // bytes of requests that no Read has taken
	came    chan struct{} // room for one: requests wait

	// For Read, and Stop after it.
	reading []*Request // taken by a Read; from at on, they have more messages
	at      int

	mu    sync.Mutex // guards the fields below
	queue []*Request // that wait to be taken, oldest first
	until time.Time  // when the rate limit ends; in the past: there is none in force
	open  []*Request // taken, by number; nil: the number is free
	free  []uint32
}

// NewQueue makes a queue. timeout is the time for the messages of a request to be settled, from when a Read takes them;
// maxRequests is how many requests may be in flight, and maxWaiting how many of their bytes may wait.
func NewQueue(timeout time.Duration, maxRequests int, maxWaiting int64) *Queue {
	return &Queue{timeout: timeout, maxWaiting: maxWaiting, slots: make(chan struct{}, maxRequests), came: make(chan struct{}, 1)}
}

// Enter takes a slot for a request, which [Queue.Exit] gives back. It returns false if too many requests are in flight.
func (q *Queue) Enter() bool {
	select {
	case q.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// Exit gives a slot back.
func (q *Queue) Exit() { <-q.slots }

// Load is what a queue has at a time.
type Load struct {
	InFlight int   // requests that have entered
	Queued   int   // requests that no Read has taken
	Bytes    int64 // that are held
}

// Load returns what the queue has now.
func (q *Queue) Load() Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Load{len(q.slots), len(q.queue), q.waiting.Load()}
}

// Refusal is why a request is not kept, or why its fate is unknown.
type Refusal struct {
	Status int // of HTTP
	Why    string
	Wait   time.Duration // until it helps to retry
	Close  bool          // the connection, too
}

// The refusals of a queue.
var (
	Draining = &Refusal{Status: http.StatusServiceUnavailable, Why: "the pipeline is draining", Close: true}
	Unread   = &Refusal{Status: http.StatusServiceUnavailable, Why: "the pipeline takes no messages at present"}
	Crowded  = &Refusal{Status: http.StatusServiceUnavailable, Why: "too many requests are in flight"}
	Overfull = &Refusal{Status: http.StatusServiceUnavailable, Why: "too many bytes wait for the pipeline"}
	TooSlow  = &Refusal{Status: http.StatusGatewayTimeout, Why: "the messages were not settled in time"}
)

// limited refuses a request because of a rate limit.
func limited(wait time.Duration) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, Why: "the rate limit is used up", Wait: wait}
}

// Read adds the messages of requests that wait. It waits until there are some, ctx ends, or the door is shut or lost.
func (q *Queue) Read(ctx context.Context, d *Door, b *engine.Batch) error {
	for len(q.reading) == 0 {
		select {
		case <-q.came:
			// Let requests that are just arriving join this Read: otherwise they would
			// get a Read of their own right after it.
			runtime.Gosched()
			q.take(b.Room())
		case <-ctx.Done():
			return ctx.Err()
		case <-d.shut:
			return engine.ErrEnd
		case err := <-d.lost:
			return err
		}
	}
	q.add(b)
	if b.Room() > 0 {
		q.take(b.Room())
		q.add(b)
	}
	return nil
}

// add adds messages of the current requests while there is room.
func (q *Queue) add(b *engine.Batch) {
	for ; q.at < len(q.reading); q.at++ {
		r := q.reading[q.at]
		for r.read < r.n {
			if b.Room() == 0 {
				return
			}
			r.messages.Add(b, r.read).Ref = r.ref()
			if r.read++; r.read == r.n { // all of it is charged to credits now
				r.messages.AllAdded()
				r.Hold.release()
			}
		}
	}
	clear(q.reading)
	q.reading, q.at = q.reading[:0], 0
}

// Ack records how messages ended, and releases requests that are complete.
func (q *Queue) Ack(results []engine.Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, res := range results {
		number := uint32(res.Ref >> 32)
		r := q.open[number]
		r.messages.Settled(int(uint32(res.Ref)), res)
		if r.left--; r.left == 0 {
			if r.gone {
				r.Hold.drop()
			}
			q.open[number] = nil
			q.free = append(q.free, number)
			r.messages.AllSettled()
			r.end()
		}
	}
}

// push queues a request to be taken by a Read, or refuses it at once.
func (q *Queue) push(d *Door, r *Request) {
	now := time.Now()
	q.mu.Lock()
	r.patience = now.Add(Pressure)
	switch {
	case d.IsShut():
		r.refuse(Draining)
	case q.until.After(r.patience):
		r.refuse(limited(q.until.Sub(now)))
	default:
		q.queue = append(q.queue, r)
	}
	q.mu.Unlock()
	q.poke()
}

// poke wakes Read to look at the queue.
func (q *Queue) poke() {
	select {
	case q.came <- struct{}{}:
	default:
	}
}

// take takes requests from the queue until their messages fill the room.
func (q *Queue) take(room int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return
	}
	now, n := time.Now(), 0
	for ; n < len(q.queue) && room > 0; n++ {
		r := q.queue[n]
		r.taken = now
		q.number(r)
		q.reading = append(q.reading, r)
		room -= r.n
	}
	q.queue = slices.Delete(q.queue, 0, n)
	if len(q.queue) > 0 {
		q.poke()
	}
}

// number gives a request the number under which its messages are acked; q.mu is
// held.
func (q *Queue) number(r *Request) {
	if n := len(q.free); n > 0 {
		r.number, q.free = q.free[n-1], q.free[:n-1]
		q.open[r.number] = r
	} else {
		r.number = uint32(len(q.open))
		q.open = append(q.open, r)
	}
}

// withdraw removes a request whose client has gone. It returns false if a Read has already taken the request.
func (q *Queue) withdraw(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(r)
}

// remove takes a request out of the queue; q.mu is held.
func (q *Queue) remove(r *Request) bool {
	i := slices.Index(q.queue, r)
	if i >= 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
	}
	return i >= 0
}

// late returns the refusal of a request that has waited for too long, or nil and how much longer it may wait.
func (q *Queue) late(r *Request) (wait time.Duration, why *Refusal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	switch {
	case r.left == 0 || r.refused != nil: // it has just ended
		return Pressure, nil
	case !r.taken.IsZero():
		if wait = r.taken.Add(q.timeout).Sub(now); wait > 0 {
			return wait, nil
		}
		return 0, TooSlow // its messages continue
	}
	if wait = r.patience.Sub(now); wait > 0 {
		return wait, nil
	}
	q.remove(r)
	if left := q.until.Sub(now); left > 0 {
		return 0, limited(left)
	}
	return 0, Unread
}

// Limited refuses requests that would have to wait until then for a rate limit.
func (q *Queue) Limited(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.until = until
	now := time.Now()
	q.queue = slices.DeleteFunc(q.queue, func(r *Request) bool {
		over := until.After(r.patience)
		if over {
			r.refuse(limited(until.Sub(now)))
		}
		return over
	})
}

// shut shuts a door, once: requests that were not taken are refused, and so are new ones. Messages that were taken and not read
// are returned.
func (q *Queue) shut(d *Door) {
	q.mu.Lock()
	close(d.shut)
	for _, r := range q.queue {
		r.refuse(Draining)
	}
	q.queue = nil
	q.mu.Unlock()
	if len(q.reading) == 0 {
		return
	}
	var rest []engine.Result
	for _, r := range q.reading[q.at:] {
		for ; r.read < r.n; r.read++ {
			rest = append(rest, engine.Result{Ref: r.ref(), Fate: engine.Returned})
		}
	}
	q.reading, q.at = nil, 0
	q.Ack(rest)
}

// EachOpen calls f for the messages of each request that is not settled.
func (q *Queue) EachOpen(f func(Messages)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.open {
		if r != nil {
			f(r.messages)
		}
	}
}
