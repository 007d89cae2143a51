package postgrescdc

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/watermark"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// progress is up to where all is settled. Messages are numbered in the order in which they were read; a transaction is
// settled when all of its messages are, and all before.
type progress struct {
	low   watermark.Watermark
	next  uint64 // the number of the next message
	marks []mark // in order; the first is not reached

	known   bool         // where reading began
	flushed pgoutput.LSN // all before is settled
	told    pgoutput.LSN // what the server knows of that
	since   uint64       // low, when it was told
	read    pgoutput.LSN // all before was read
	end     pgoutput.LSN // of the server's log, as far as was heard
}

// mark is a place up to which all is settled when all messages before a number are.
type mark struct {
	before uint64
	lsn    pgoutput.LSN
}

// begin notes where reading begins.
func (p *progress) begin(from pgoutput.LSN) {
	p.known = true
	p.flushed, p.told = max(p.flushed, from), max(p.told, from)
	p.read = max(p.read, p.flushed)
}

// add numbers a message.
func (p *progress) add() (ref uint64) {
	p.next++
	return p.low.Read(1)
}

// reach notes that all before a place belongs to messages that are numbered already.
func (p *progress) reach(at pgoutput.LSN) {
	p.read = max(p.read, at)
	if n := len(p.marks); n > 0 && p.marks[n-1].before == p.next {
		p.marks[n-1].lsn = max(p.marks[n-1].lsn, at)
	} else if at > p.flushed {
		p.marks = append(p.marks, mark{p.next, at})
	}
	p.raise()
}

// raise applies the marks that are reached.
func (p *progress) raise() {
	n := 0
	for n < len(p.marks) && p.marks[n].before <= p.low.Low() {
		p.flushed = max(p.flushed, p.marks[n].lsn)
		n++
	}
	if n > 0 {
		p.marks = append(p.marks[:0], p.marks[n:]...)
	}
}

// Ack notes what is settled.
func (in *input) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.due.low.Ack(results) {
		return nil, nil
	}
	in.due.raise()
	if in.news != nil {
		close(in.news)
		in.news = nil
	}
	return nil, nil
}

// newsOf is closed when something is settled; in.mu is held.
func (in *input) newsOf() chan struct{} {
	if in.news == nil {
		in.news = make(chan struct{})
	}
	return in.news
}

// settled reports whether all that was read is settled, and what is closed when more is.
func (in *input) settled() (all bool, news chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.due.low.Low() == in.due.next, in.newsOf()
}

// Progress is how far the slot is, in bytes of the server's log.
func (in *input) Progress() engine.Progress {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := engine.Position{Name: in.cfg.Slot, Settled: -1, Read: int64(in.due.read), End: int64(in.due.end)}
	if in.due.known {
		at.Settled = int64(in.due.flushed)
	}
	return engine.Progress{Positions: []engine.Position{at}}
}
