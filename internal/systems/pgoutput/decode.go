package pgoutput

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// mostColumns is how many columns a table of PostgreSQL can have; a partitioned or foreign one has no more.
const mostColumns = 1664

// Decode reads a message. What is not of a kind that m has room for, such as Type and Origin, is only named. An error
// says what is wrong; m is not to be used then.
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
		r.byte() // flags, of which there are none
		m.LSN, m.End, m.Time = LSN(r.uint64()), LSN(r.uint64()), r.time()
	case Relation:
		m.relation(&r)
	case Insert:
		m.ID = r.uint32()
		r.expect('N')
		m.New = r.tuple(m.New)
	case Update:
		m.ID = r.uint32()
		if m.old(&r) {
			r.expect('N')
		}
		m.New = r.tuple(m.New)
	case Delete:
		if m.ID = r.uint32(); !m.old(&r) {
			r.fail("a deleted row without its key")
		}
	case Truncate:
		n := int(r.uint32())
		r.byte() // options: they have taken effect
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
	return r.end(m.Kind)
}

// old reads a row as it was, or its key, and says whether there is one; the mark of what follows is read, too, where
// there is none.
func (m *Message) old(r *reader) bool {
	switch mark := r.byte(); mark {
	case 'O', 'K':
		m.All = mark == 'O'
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
		m.Namespace = "pg_catalog" // which the server does not spell out
	}
	for range r.count() {
		c := Column{Key: r.byte()&1 != 0, Name: r.text(), Type: r.uint32(), Modifier: int32(r.uint32())}
		if r.err != nil {
			return
		}
		m.Columns = append(m.Columns, c)
	}
}

// reader takes a message apart. After an error it gives zeros.
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

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail("it ends too early")
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) time() time.Time { return timeOf(int64(r.uint64())) }

// text reads a text that ends with a zero.
func (r *reader) text() string {
	n := bytes.IndexByte(r.b, 0)
	if n < 0 {
		r.fail("a name without an end")
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n+1:]
	return s
}

// count reads a number of columns.
func (r *reader) count() int {
	b := r.take(2)
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
			v.Text = r.take(int(int32(r.uint32())))
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

func (r *reader) end(k Kind) error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("something follows its end")
	}
	if r.err != nil {
		return fmt.Errorf("a message of kind %q: %w", byte(k), r.err)
	}
	return nil
}
