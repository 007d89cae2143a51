package postgrescdc

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// The operations, as messages name them.
const (
	opRead      = "read"
	opInsert    = "insert"
	opUpdate    = "update"
	opDelete    = "delete"
	opKeyChange = "key_change"
	opTruncate  = "truncate"
	opBegin     = "begin"
	opCommit    = "commit"
)

// transaction is one that is being read; nil: that is the snapshot.
type transaction struct {
	xid  uint32
	at   place // of what was read last
	time time.Time
	rows int    // that were read
	tail []byte // `,"xid":…` to the end of each message
}

func newTransaction(m *pgoutput.Message) *transaction {
	tx := &transaction{xid: m.XID, at: place{commit: m.LSN}, time: m.Time}
	tx.tail = strconv.AppendUint([]byte(`,"xid":`), uint64(m.XID), 10)
	tx.tail = m.Time.AppendFormat(append(tx.tail, `,"commit_time":"`...), time.RFC3339Nano)
	tx.tail = append(tx.tail, `"}`...)
	return tx
}

// change is a message that is not in a batch yet.
type change struct {
	body  []byte
	op    string
	key   string
	table *table       // nil: it is about a transaction
	tx    *transaction // nil: it is a row of the snapshot
	at    place
	row   int          // its number in the transaction, from 1; 0: it is not a change of a row or a table
	last  bool         // of its transaction
	reach pgoutput.LSN // when it is read, all before this is; 0: there is more of its transaction
}

// block is where bodies and keys are written, one after the other; what is in it never changes.
type block []byte

const blockSize = 64 << 10

// room makes room for a body of about n bytes.
func (b *block) room(n int) []byte {
	if cap(*b)-len(*b) < n {
		*b = make([]byte, 0, max(blockSize, n))
	}
	return (*b)[len(*b):]
}

// keep keeps what was appended to room.
func (b *block) keep(body []byte) []byte {
	n := len(*b)
	if cap(*b)-n >= len(body) && len(body) > 0 && unsafe.SliceData((*b)[n:n+1]) == unsafe.SliceData(body) {
		*b = (*b)[:n+len(body)]
	}
	return body[:len(body):len(body)]
}

// text is what was kept, as a string.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// key is the key of a row.
func (b *block) key(t *table, row []pgoutput.Value) string {
	out := append(b.room(64), '{')
	for i, k := range t.keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendValue(append(out, t.columns[k].json...), t.columns[k].shape, row[k])
	}
	return text(b.keep(append(out, '}')))
}

// sizeOf is about how many bytes a row takes.
func sizeOf(t *table, row []pgoutput.Value) (n int) {
	for i := range row {
		n += len(t.columns[i].json) + len(row[i].Text) + len(row[i].Text)/8 + 8
	}
	return n
}

// body writes the document of a change of a table. before and after may be empty; whole says that before is a row, not
// only its key. other, a field or nothing, is the key of the same row in the other half of a pair.
func (b *block) body(op string, t *table, before []pgoutput.Value, whole bool, after []pgoutput.Value, other string,
	lsn pgoutput.LSN, row int, tail []byte) []byte {
	out := append(b.room(256+len(t.head)+sizeOf(t, before)+sizeOf(t, after)), `{"op":"`...)
	out = append(append(append(out, op...), '"'), t.head...)
	switch out = append(out, `,"before":`...); {
	case len(before) == 0:
		out = append(out, "null"...)
	case whole:
		out = appendRow(out, t, before)
	default:
		out = append(out, '{')
		for i, k := range t.keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendValue(append(out, t.columns[k].json...), t.columns[k].shape, before[k])
		}
		out = append(out, '}')
	}
	if out = append(out, `,"after":`...); len(after) == 0 {
		out = append(out, "null"...)
	} else {
		out = appendRow(out, t, after)
		out = appendUnchanged(out, t, after)
	}
	return b.keep(append(appendPlace(append(out, other...), lsn, row), tail...))
}

// appendPlace appends where a change is.
func appendPlace(out []byte, lsn pgoutput.LSN, row int) []byte {
	out = append(lsn.Append(append(out, `,"lsn":"`...)), '"')
	if row > 0 {
		out = strconv.AppendInt(append(out, `,"position":`...), int64(row), 10)
	}
	return out
}

func appendRow(out []byte, t *table, row []pgoutput.Value) []byte {
	out = append(out, '{')
	first := true
	for i, v := range row {
		if v.Kind == pgoutput.Unchanged {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = appendValue(append(out, t.columns[i].json...), t.columns[i].shape, v)
	}
	return append(out, '}')
}

func appendValue(out []byte, s pgoutput.Shape, v pgoutput.Value) []byte {
	if v.Kind != pgoutput.Text {
		return append(out, "null"...)
	}
	if !utf8.Valid(v.Text) {
		return appendBytes(out, v.Text)
	}
	return s.Append(out, v.Text)
}

// appendBytes appends text that is not UTF-8, as a database in SQL_ASCII may have it, as it is: the payload keeps it, and
// what reads the document fails.
func appendBytes(out, text []byte) []byte {
	out = append(out, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// appendUnchanged names the columns that were not sent.
func appendUnchanged(out []byte, t *table, row []pgoutput.Value) []byte {
	open := false
	for i, v := range row {
		if v.Kind != pgoutput.Unchanged {
			continue
		}
		if !open {
			out = append(out, `,"unchanged":[`...)
		} else {
			out = append(out, ',')
		}
		open = true
		out = doc.AppendString(out, t.columns[i].name)
	}
	if open {
		out = append(out, ']')
	}
	return out
}

// lacks says that the server has not sent all of a row.
func lacks(row []pgoutput.Value) bool {
	return slices.ContainsFunc(row, func(v pgoutput.Value) bool { return v.Kind == pgoutput.Unchanged })
}

// fill takes what an update did not send from the row as it was.
func fill(before, after []pgoutput.Value) {
	for i := range before {
		if after[i].Kind == pgoutput.Unchanged && before[i].Kind == pgoutput.Text {
			after[i] = before[i]
		}
	}
}
