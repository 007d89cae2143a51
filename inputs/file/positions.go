package file

import (
	"context"
	"sync"

	"github.com/flowd-io/flowd/internal/watermark"

	"github.com/flowd-io/flowd/engine"
)

// positions follows which messages of an instance are settled. It is the Acker
// of all its Reads, and stays so when the input is closed and opened again.
type positions struct {
	book *book
	next uint64 // the position of the next message; for Read alone

	mu    sync.Mutex // guards the field below
	marks watermark.Marks[mark]
}

// acker is nil where nothing is remembered.
func (p *positions) acker() engine.Acker {
	if p.book.path == "" {
		return nil
	}
	return p
}

// read records where the messages that were read end: their Refs are positions from next
// on. A mark without a message counts as soon as all before it do.
func (p *positions) read(marks []mark) {
	if len(marks) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = p.marks.Read(marks, func(m mark) bool { return m.end }, p.book.settled) + uint64(len(marks))
}

// Ack settles all but what was returned.
func (p *positions) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks.Ack(results, p.book.settled)
	return nil, nil
}
