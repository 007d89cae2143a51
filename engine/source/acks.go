package source

import (
	"context"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/watermark"
)

// Acks keeps track of the settled messages of one instance. It is the Acker of all its Reads, also after the input was
// closed and opened again. A mark M is the position behind a message. It counts when that message and all messages that
// were read before are settled.
type Acks[M any] struct {
	// Settled is called with marks that count, in the order of reading, by one goroutine at a time.
	Settled func(marks []M)
	// IsSettled says that a mark has no message, so that it counts when all messages before it are settled.
	IsSettled func(M) bool

	next uint64 // the Ref of the next message; for the goroutine that reads

	mu    sync.Mutex // guards the field below
	marks watermark.Marks[M]
}

// Next is the Ref for the message of the first mark of the next Read. The Refs of the others follow it. Only the goroutine
// that reads may call it.
func (a *Acks[M]) Next() uint64 { return a.next }

// Read adds the marks of messages that were read. It is called by the goroutine that calls Next.
func (a *Acks[M]) Read(marks []M) {
	if len(marks) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = a.marks.Read(marks, a.IsSettled, a.Settled) + uint64(len(marks))
}

// Ack settles all messages except those that were returned. It implements engine.Acker.
func (a *Acks[M]) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks.Ack(results, a.Settled)
	return nil, nil
}
