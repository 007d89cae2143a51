package sql

import (
	"bytes"
	"encoding/json"

	"github.com/flowd-io/flowd/internal/state/cursor"
)

// state is what a checkpoint has.
type state struct {
	Cursor json.RawMessage `json:"cursor"`
}

// places follows which rows are settled. Rows with equal cursors count together: a query that begins after one would
// leave out the others.
type places struct {
	saves bool // there is a checkpoint
	cursor.Places[state]

	newest []byte // the cursor of the last row that was read; nil: none since the query began
	next   []byte // where the next query begins; nil: there is no cursor yet
}

// read notes a row that was read, and gives its Ref.
func (p *places) read(cursor []byte) (ref uint64) {
	if p.newest != nil && !bytes.Equal(p.newest, cursor) {
		p.finish()
	}
	p.newest = cursor
	if !p.saves {
		return 0
	}
	return p.Read(1)
}

// end says that a query has given all its rows.
func (p *places) end() {
	if p.newest != nil {
		p.finish()
		p.newest = nil
	}
}

// finish says that no row follows with the cursor of the last one.
func (p *places) finish() {
	p.next = p.newest
	if p.saves {
		p.Mark(state{p.newest})
	}
}

// broken says that a query was interrupted: rows with the cursor of the last one may be missing, and are read again with
// it.
func (p *places) broken() { p.newest = nil }
