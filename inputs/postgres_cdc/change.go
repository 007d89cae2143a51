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

// transaction is a transaction of the stream. A nil *transaction is the snapshot.
type transaction struct {
	xid  uint32
	at   place // of the last change that was read
	time time.Time
	rows int    // number of changes that were read
	tail []byte // the end of each message, from `,"xid":` on
}

func newTransaction(m *pgoutput.Message) *transaction {
	tx := &transaction{xid: m.XID, at: place{commit: m.LSN}, time: m.Time}
	tx.tail = strconv.AppendUint([]byte(`,"xid":`), uint64(m.XID), 10)
	tx.tail = m.Time.AppendFormat(append(tx.tail, `,"commit_time":"`...), time.RFC3339Nano)
	tx.tail = append(tx.tail, `"}`...)
	return tx
}

// change is a message that was not read into a batch yet.
type change struct {
	body  []byte
	op    string
	key   string
	table *table       // nil: it is the begin or commit of a transaction
	tx    *transaction // nil: it is a row of the snapshot
	at    place
	row   int          // its number in the transaction, from 1; 0: it is a begin, a commit or a row of the snapshot
	last  bool         // it is the last change of its transaction
	reach pgoutput.LSN // with this change, everything before this position was read; 0: the transaction continues
}

// block is a buffer to which bodies and keys are appended. Its content never changes.
type block []byte

const blockSize = 64 << 10

// room returns an empty slice at the end of the block with room for about n bytes.
func (b *block) room(n int) []byte {
	if cap(*b)-len(*b) < n {
		*b = make([]byte, 0, max(blockSize, n))
	}
	return (*b)[len(*b):]
}

// keep makes body, which was appended to the result of room, a part of the block.
func (b *block) keep(body []byte) []byte {
	n := len(*b)
	if cap(*b)-n >= len(body) && len(body) > 0 && unsafe.SliceData((*b)[n:n+1]) == unsafe.SliceData(body) {
		*b = (*b)[:n+len(body)]
	}
	return body[:len(body):len(body)]
}

// text returns kept bytes as a string, without a copy.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// key returns the key of a row, as a JSON object.
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

// sizeOf returns about how many bytes a row needs.
func sizeOf(t *table, row []pgoutput.Value) (n int) {
	for i := range row {
		n += len(t.columns[i].json) + len(row[i].Text) + len(row[i].Text)/8 + 8
	}
	return n
}

// body returns the document of a change of a table. before and after may be empty. whole says that before is a whole row, not only
// its key. If an update was split into a delete and an insert, other is the field with the row's key in the other one.
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

// appendPlace appends the position of a change.
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

// appendBytes appends text that is not UTF-8, as in a database with the encoding SQL_ASCII, without changing it. The payload keeps
// the bytes, and steps that read the document fail.
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

// appendUnchanged appends the names of columns that were not sent.
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

// incomplete reports whether the server has not sent all values of a row.
func incomplete(row []pgoutput.Value) bool {
	return slices.ContainsFunc(row, func(v pgoutput.Value) bool { return v.Kind == pgoutput.Unchanged })
}

// fillUnchanged copies values that an update did not send from the row before it.
func fillUnchanged(before, after []pgoutput.Value) {
	for i := range before {
		if after[i].Kind == pgoutput.Unchanged && before[i].Kind == pgoutput.Text {
			after[i] = before[i]
		}
	}
}
