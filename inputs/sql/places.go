package sql

import (
	"bytes"
	"encoding/json"

	"github.com/flowd-io/flowd/internal/state/cursor"
)

// state is the content of a checkpoint.
type state struct {
	Cursor json.RawMessage `json:"cursor"`
}

// places tracks up to which cursor rows are settled. Rows with equal cursors count as one position: a query that begins after
// one of them would miss the others.
type places struct {
	saves bool // there is a checkpoint
	cursor.Places[state]

	newest []byte // cursor of the last row that was read; nil: none since the query began
	next   []byte // cursor after which the next query begins; nil: there is none yet
}

// noteRow notes a row that was read, and returns its Ref.
func (p *places) noteRow(cursor []byte) (ref uint64) {
	if p.newest != nil && !bytes.Equal(p.newest, cursor) {
		p.finishCursor()
	}
	p.newest = cursor
	if !p.saves {
		return 0
	}
	return p.Read(1)
}

// queryEnded notes that a query has returned all its rows.
func (p *places) queryEnded() {
	if p.newest != nil {
		p.finishCursor()
		p.newest = nil
	}
}

// finishCursor notes that no other row has the cursor of the last one.
func (p *places) finishCursor() {
	p.next = p.newest
	if p.saves {
		p.Mark(state{p.newest})
	}
}

// interrupted notes that a query was interrupted. More rows may have the cursor of the last one, so the next query begins
// before that cursor, and reads all of its rows again.
func (p *places) interrupted() { p.newest = nil }
