package sql

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/checkpoint"
	"github.com/flowd-io/flowd/internal/watermark"
)

// state is what a checkpoint has.
type state struct {
	Cursor json.RawMessage `json:"cursor"`
}

// places follows which rows are settled. It is the Acker of all Reads, and stays so when the input is closed and opened
// again. Rows with equal cursors count together: a query that begins after one would leave out the others.
type places struct {
	saves bool // there is a checkpoint

	mu     sync.Mutex // guards the fields below
	low    watermark.Watermark
	marks  []mark // of the rows from first on
	first  uint64
	newest []byte // the cursor of the last row that was read; nil: none since the query began
	next   []byte // where the next query begins
	saved  []byte // the cursor that the checkpoint has, or will have
	keeper *checkpoint.Keeper[state]
}

// mark is the cursor of a row.
type mark struct {
	cursor []byte
	last   bool // of those with this cursor
}

// keep saves to k from now on. What this process knows counts more than what was saved.
func (p *places) keep(k *checkpoint.Keeper[state], saved *state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeper = k
	if p.next == nil && saved != nil && len(saved.Cursor) > 0 && string(saved.Cursor) != "null" {
		p.next, p.saved = saved.Cursor, saved.Cursor
	}
	if p.saved != nil {
		k.Changed(0)
	}
}

// leave saves, and keeps nothing any more.
func (p *places) leave() error {
	p.mu.Lock()
	k := p.keeper
	p.keeper = nil
	p.mu.Unlock()
	if k == nil {
		return nil
	}
	return k.Close()
}

// state is what to save.
func (p *places) state() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return state{p.saved}
}

// after is the cursor after which the next query begins; nil: there is none.
func (p *places) after() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// read notes a row that was read, and gives its Ref.
func (p *places) read(cursor []byte) (ref uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest != nil && !bytes.Equal(p.newest, cursor) {
		p.finish()
	}
	p.newest = cursor
	if !p.saves {
		return 0
	}
	p.marks = append(p.marks, mark{cursor: cursor})
	return p.low.Read(1)
}

// end says that a query has given all its rows.
func (p *places) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest != nil {
		p.finish()
		p.newest = nil
	}
	p.advance()
}

// finish says that no row follows with the cursor of the last one.
func (p *places) finish() {
	p.next = p.newest
	if n := len(p.marks); n > 0 {
		p.marks[n-1].last = true
	}
}

// broken says that a query was interrupted: rows with the cursor of the last one may be missing, and are read again with
// it.
func (p *places) broken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = nil
}

// Ack settles all but what was returned.
func (p *places) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.low.Ack(results) {
		p.advance()
	}
	return nil, nil
}

// advance saves the cursor below which all rows are settled.
func (p *places) advance() {
	settled := int(p.low.Low() - p.first)
	done, changed := 0, false
	for ; done < settled; done++ {
		m := &p.marks[done]
		if m.last {
			p.saved, changed = m.cursor, true
		} else if done == len(p.marks)-1 {
			break // more may follow
		}
	}
	if done > 0 {
		p.marks = append(p.marks[:0], p.marks[done:]...)
		p.first += uint64(done)
	}
	if changed && p.keeper != nil {
		p.keeper.Changed(done)
	}
}
