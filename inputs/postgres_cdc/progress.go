package postgrescdc

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/watermark"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// progress tracks up to which position of the log everything is settled. Messages are numbered in read order. A transaction is
// settled when all of its messages, and all before them, are settled.
type progress struct {
	low   watermark.Watermark
	next  uint64 // the number of the next message
	marks []mark // in order; none of them is settled

	known       bool         // the position where reading began is known
	flushed     pgoutput.LSN // everything before it is settled
	reported    pgoutput.LSN // the last flushed that was reported to the server
	reportedLow uint64       // low.Low at that time
	read        pgoutput.LSN // everything before it was read
	end         pgoutput.LSN // end of the server's log, as far as is known
}

// mark is a position up to which everything is settled once all messages before a number are.
type mark struct {
	before uint64
	lsn    pgoutput.LSN
}

// startAt sets the position where reading begins.
func (p *progress) startAt(from pgoutput.LSN) {
	p.known = true
	p.flushed, p.reported = max(p.flushed, from), max(p.reported, from)
	p.read = max(p.read, p.flushed)
}

// nextRef numbers a message.
func (p *progress) nextRef() (ref uint64) {
	p.next++
	return p.low.Read(1)
}

// noteRead notes that all messages before a position are numbered.
func (p *progress) noteRead(at pgoutput.LSN) {
	p.read = max(p.read, at)
	if n := len(p.marks); n > 0 && p.marks[n-1].before == p.next {
		p.marks[n-1].lsn = max(p.marks[n-1].lsn, at)
	} else if at > p.flushed {
		p.marks = append(p.marks, mark{p.next, at})
	}
	p.applyMarks()
}

// applyMarks raises flushed to the last mark that is settled.
func (p *progress) applyMarks() {
	n := 0
	for n < len(p.marks) && p.marks[n].before <= p.low.Low() {
		p.flushed = max(p.flushed, p.marks[n].lsn)
		n++
	}
	if n > 0 {
		p.marks = append(p.marks[:0], p.marks[n:]...)
	}
}

// Ack notes settled messages. They are reported to the server later.
func (in *input) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.due.low.Ack(results) {
		return nil, nil
	}
	in.due.applyMarks()
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
	return nil, nil
}

// nextChange returns a channel that is closed when a message is settled. in.mu is held.
func (in *input) nextChange() chan struct{} {
	if in.changed == nil {
		in.changed = make(chan struct{})
	}
	return in.changed
}

// settled reports whether all messages that were read are settled, and returns a channel that is closed when another one is.
func (in *input) settled() (all bool, changed chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.due.low.Low() == in.due.next, in.nextChange()
}

// Progress returns the position of the slot, in bytes of the server's log.
func (in *input) Progress() engine.Progress {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := engine.Position{Name: in.cfg.Slot, Settled: -1, Read: int64(in.due.read), End: int64(in.due.end)}
	if in.due.known {
		at.Settled = int64(in.due.flushed)
	}
	return engine.Progress{Bytes: true, Positions: []engine.Position{at}}
}
