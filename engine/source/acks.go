package source

import (
	"context"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/watermark"
)

// Acks follows which messages of one instance are settled. It is the Acker of all its Reads, and stays so when the
// input is closed and opened again. A mark M says where a message ends: it counts as soon as that message is settled,
// and all that were read before.
type Acks[M any] struct {
	// Settled takes marks that count, in the order in which they were read, one call at a time.
	Settled func(marks []M)
	// IsSettled says that no message stands for a mark: it counts as soon as all before it are settled.
	IsSettled func(M) bool

	next uint64 // the Ref of the next message; for Read alone

	mu    sync.Mutex // guards the field below
	marks watermark.Marks[M]
}

// Next is the Ref of the message whose mark is the first of the next Read. Those of the others follow.
func (a *Acks[M]) Next() uint64 { return a.next }

// Read adds marks of what was read. It is called by the goroutine of Next.
func (a *Acks[M]) Read(marks []M) {
	if len(marks) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = a.marks.Read(marks, a.IsSettled, a.Settled) + uint64(len(marks))
}

// Ack settles all but what was returned.
func (a *Acks[M]) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks.Ack(results, a.Settled)
	return nil, nil
}
