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

	mu    sync.Mutex // guards the fields below
	low   watermark.Watermark
	marks []mark // of the positions from first on
	first uint64
	over  int // how many marks, the first, have been handed on
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
	first := p.low.Read(len(marks))
	p.next = first + uint64(len(marks))
	p.marks = append(p.marks, marks...)
	raised := false
	for i := range marks {
		if marks[i].end && p.low.Settle(first+uint64(i)) {
			raised = true
		}
	}
	if raised {
		p.advance()
	}
}

// Ack settles all but what was returned.
func (p *positions) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	raised := false
	for i := range results {
		if results[i].Fate != engine.Returned && p.low.Settle(results[i].Ref) {
			raised = true
		}
	}
	if raised {
		p.advance()
	}
	return nil, nil
}

// advance hands on the marks below the low position.
func (p *positions) advance() {
	to := int(p.low.Low() - p.first)
	p.book.settled(p.marks[p.over:to])
	p.over = to
	if 2*to < len(p.marks) {
		return
	}
	rest := copy(p.marks, p.marks[to:])
	clear(p.marks[rest:])
	p.marks, p.over = p.marks[:rest], 0
	p.first += uint64(to)
}
