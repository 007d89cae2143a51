package pgoutput

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// mostColumns is PostgreSQL's limit for the columns of any table.
const mostColumns = 1664

// Decode decodes a message into m. For the kinds Type, Origin and Logical, it sets only the kind. After an error, m must not be
// used. m refers to b, and its slices are used again by the next Decode.
func (m *Message) Decode(b []byte) error {
	if len(b) == 0 {
		return errors.New("an empty message")
	}
	r := reader{b: b[1:]}
	*m = Message{Kind: Kind(b[0]), Columns: m.Columns[:0], Old: m.Old[:0], New: m.New[:0], Tables: m.Tables[:0]}
	switch m.Kind {
	case Begin:
		m.LSN, m.Time, m.XID = LSN(r.uint64()), r.time(), r.uint32()
	case Commit:
		r.byte() // flags; the protocol defines none
		m.LSN, m.End, m.Time = LSN(r.uint64()), LSN(r.uint64()), r.time()
	case Relation:
		m.relation(&r)
	case Insert:
		m.ID = r.uint32()
		r.expect('N')
		m.New = r.tuple(m.New)
	case Update:
		m.ID = r.uint32()
		if m.oldRow(&r) {
			r.expect('N')
		}
		m.New = r.tuple(m.New)
	case Delete:
		if m.ID = r.uint32(); !m.oldRow(&r) {
			r.fail("a deleted row without its key")
		}
	case Truncate:
		n := int(r.uint32())
		r.byte() // options, such as CASCADE: all affected tables are listed
		if n > len(r.b)/4 {
			r.fail("more tables than bytes")
			n = 0
		}
		for range n {
			m.Tables = append(m.Tables, r.uint32())
		}
	case Type, Origin, Logical:
		return nil
	default:
		return fmt.Errorf("a message of the unknown kind %q", b[0])
	}
	return r.finish(m.Kind)
}

// oldRow reads the old row, or its key, and reports whether there is one. Otherwise, the mark of the new row was read instead.
func (m *Message) oldRow(r *reader) bool {
	switch mark := r.byte(); mark {
	case 'O', 'K':
		m.OldComplete = mark == 'O'
		m.Old = r.tuple(m.Old)
		return true
	case 'N':
		return false
	default:
		r.fail("a row of an unknown kind")
		return false
	}
}

func (m *Message) relation(r *reader) {
	m.ID, m.Namespace, m.Name, m.Identity = r.uint32(), r.text(), r.text(), r.byte()
	if m.Namespace == "" {
		m.Namespace = "pg_catalog" // the server sends "" for it
	}
	for range r.count() {
		c := Column{Key: r.byte()&1 != 0, Name: r.text(), Type: r.uint32(), Modifier: int32(r.uint32())}
		if r.err != nil {
			return
		}
		m.Columns = append(m.Columns, c)
	}
}

// reader reads the parts of a message. After an error, its methods return zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(problem string) {
	if r.err == nil {
		r.err = errors.New(problem)
	}
	r.b = nil
}

// next returns the next n bytes, or nil after an error.
func (r *reader) next(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail("it ends too early")
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.next(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.next(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.next(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) time() time.Time { return timeOf(int64(r.uint64())) }

// text reads a text that ends with a zero byte.
func (r *reader) text() string {
	n := bytes.IndexByte(r.b, 0)
	if n < 0 {
		r.fail("a name is not terminated")
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n+1:]
	return s
}

// count reads the number of columns.
func (r *reader) count() int {
	b := r.next(2)
	if b == nil {
		return 0
	}
	n := int(binary.BigEndian.Uint16(b))
	if n > mostColumns {
		r.fail("more columns than a table can have")
		return 0
	}
	return n
}

func (r *reader) expect(mark byte) {
	if r.byte() != mark {
		r.fail("a row of an unknown kind")
	}
}

// tuple appends the values of a row to dst.
func (r *reader) tuple(dst []Value) []Value {
	for range r.count() {
		v := Value{Kind: ValueKind(r.byte())}
		switch v.Kind {
		case Null, Unchanged:
		case Text:
			v.Text = r.next(int(int32(r.uint32())))
		default:
			r.fail("a value of an unknown kind")
		}
		if r.err != nil {
			return dst
		}
		dst = append(dst, v)
	}
	return dst
}

// finish returns the error of the message, or an error if some of its bytes were not read.
func (r *reader) finish(k Kind) error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("it has extra bytes")
	}
	if r.err != nil {
		return fmt.Errorf("a message of kind %q: %w", byte(k), r.err)
	}
	return nil
}
