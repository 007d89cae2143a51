package push

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Messages are the messages of one request.
type Messages interface {
	// Add adds the i-th message to a batch. It is called once for each, in order.
	Add(b *engine.Batch, i int) *engine.Message
	// AllAdded is called after the last Add.
	AllAdded()
	// Settled says how the i-th message ended, and AllSettled that all have. The queue is locked meanwhile.
	Settled(i int, r engine.Result)
	AllSettled()
}

// Request is a request whose messages are in flight. Inputs embed it in their own.
type Request struct {
	Hold Hold

	messages Messages
	n        int           // messages
	done     chan struct{} // room for the one signal that it has ended
	timer    *time.Timer
	shared   bool // others still use it: it can't be recycled

	read   int    // messages that were handed out
	number uint32 // given by Queue.number

	// Guarded by Queue.mu until done says that it has ended.
	patience time.Time // the latest time by which a Read must take it
	taken    time.Time // by a Read; zero: it waits
	refused  *Refusal  // nil: it is answered by its results
	left     int       // results still outstanding
	gone     bool      // nobody waits for its results: its bytes are released with the last one
}

// NewRequest returns a request, for a pool: most of its memory is for waiting.
func NewRequest() Request {
	r := Request{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	r.timer.Stop()
	return r
}

// Recycled returns a request that reuses what a finished one needs for waiting.
func (r *Request) Recycled() Request { return Request{done: r.done, timer: r.timer} }

// ref returns the handle of the message that is read next.
func (r *Request) ref() uint64 { return uint64(r.number)<<32 | uint64(r.read) }

// end signals that all results have come, or that the request is refused.
func (r *Request) end() { r.done <- struct{}{} }

func (r *Request) refuse(why *Refusal) {
	r.refused = why
	r.end()
}

// soon is the time within which most requests are answered. Only after that is it worth watching whether a client has gone.
const soon = 10 * time.Millisecond

// Await queues a request with n messages, at least one, and waits until they are settled, or until it has waited for too long.
// why says why it is refused. It returns false if ctx has ended: the client has gone, and needs no answer.
func (q *Queue) Await(ctx context.Context, d *Door, r *Request, m Messages, n int) (why *Refusal, ok bool) {
	r.messages, r.n, r.left, r.shared = m, n, n, true
	q.push(d, r)
	r.timer.Reset(min(soon, q.timeout))
	defer r.timer.Stop()
	var gone <-chan struct{}
	for {
		select {
		case <-r.done:
			r.shared = false
			return r.refused, true
		case <-r.timer.C:
			wait, why := q.late(r)
			if why != nil {
				return why, true
			}
			r.timer.Reset(wait)
			gone = ctx.Done()
		case <-gone:
			r.shared = !q.withdraw(r)
			return nil, false
		}
	}
}

// Leave releases what a request still holds after its answer, or after its client has gone. read says whether a Read has taken
// it, and shared whether it is still in use, since messages of it are in flight: it must not be recycled.
func (r *Request) Leave() (read, shared bool) {
	if !r.shared || !r.abandon() {
		r.Hold.drop()
	}
	return !r.taken.IsZero(), r.shared
}

// abandon gives up waiting for a request's messages. It returns false if none of them is in flight.
func (r *Request) abandon() bool {
	q := r.Hold.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	r.gone = !r.taken.IsZero() && r.left > 0
	return r.gone
}
