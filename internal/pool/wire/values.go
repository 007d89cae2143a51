package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// writer and reader implement the binary form of jobs and answers: lengths and numbers are varints, values follow a
// letter for their type.
type writer struct {
	b    []byte
	vars bool // writes vars, which may have more types than metadata
}

func (w *writer) uint(n int)     { w.b = binary.AppendUvarint(w.b, uint64(n)) }
func (w *writer) id(n uint64)    { w.b = binary.AppendUvarint(w.b, n) }
func (w *writer) int(n int64)    { w.b = binary.AppendVarint(w.b, n) }
func (w *writer) text(s string)  { w.uint(len(s)); w.b = append(w.b, s...) }
func (w *writer) bytes(s []byte) { w.uint(len(s)); w.b = append(w.b, s...) }
func (w *writer) flags(n byte)   { w.b = append(w.b, n) }
func (w *writer) time(t time.Time) {
	text, err := t.MarshalBinary()
	if err != nil { // a zone with an offset that is not in whole minutes
		text, _ = t.UTC().MarshalBinary()
	}
	w.bytes(text)
}

// value writes a value of metadata or vars, of the types that engine.Meta and engine.Vars allow. Other values are
// written as text.
func (w *writer) value(v any) {
	if w.vars && w.variable(v) {
		return
	}
	switch v := v.(type) {
	case nil:
		w.flags('n')
	case bool:
		w.flags(map[bool]byte{false: 'f', true: 't'}[v])
	case int:
		w.flags('i')
		w.int(int64(v))
	case int64:
		w.flags('l')
		w.int(v)
	case float64:
		w.flags('d')
		w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(v))
	case string:
		w.flags('s')
		w.text(v)
	case time.Time:
		w.flags('T')
		w.time(v)
	case []byte:
		w.flags('b')
		w.bytes(v)
	case []any:
		w.flags('[')
		w.uint(len(v))
		for _, x := range v {
			w.value(x)
		}
	case map[string]any:
		w.flags('{')
		w.uint(len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			w.text(k)
			w.value(v[k])
		}
	default:
		w.flags('s')
		w.text(fmt.Sprint(v))
	}
}

func (w *writer) meta(m engine.Meta) {
	added := maps.Collect(m.Added())
	w.uint(m.Len())
	w.uint(m.Len() - len(added))
	for name, v := range m.All() {
		if _, later := added[name]; !later {
			w.text(name)
			w.value(v)
		}
	}
	for name, v := range m.Added() {
		w.text(name)
		w.value(v)
	}
}

// variable writes a value of a type that only vars may have.
func (w *writer) variable(v any) bool {
	switch v := v.(type) {
	case doc.Number:
		w.flags('N')
		w.text(string(v))
	case time.Duration:
		w.flags('D')
		w.int(int64(v))
	default:
		return false
	}
	return true
}

func (w *writer) putVars(v engine.Vars) {
	w.vars = true
	defer func() { w.vars = false }()
	all := maps.Collect(v.All())
	w.uint(len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w.text(name)
		w.value(all[name])
	}
}

// err writes an error with its class, and with the fields of a step's error.
func (w *writer) err(e error) {
	typed, ok := errors.AsType[*engine.Error](e)
	if !ok {
		typed = &engine.Error{Class: engine.Permanent}
	}
	w.text(string(typed.Class))
	w.text(typed.Step)
	w.text(typed.Output)
	w.int(int64(typed.Attempt))
	w.int(int64(typed.Delay))
	w.time(typed.FirstFailed)
	w.text(e.Error())
	w.text(typed.Detail)
}

var errShort = errors.New("the data ends too early, or was not sent by flowd")

// reader decodes the output of a writer. After an error, it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() { r.b, r.err = nil, errShort }

func (r *reader) id() uint64 { return number(r, binary.Uvarint) }

func (r *reader) int() int64 { return number(r, binary.Varint) }

func number[T int64 | uint64](r *reader, read func([]byte) (T, int)) T {
	n, size := read(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count reads a number of things that take at least a byte each.
func (r *reader) count() int {
	n := r.id() // shortens the rest
	return r.upTo(len(r.b), n)
}

// small reads a number that is not a count.
func (r *reader) small() int { return r.upTo(math.MaxInt32, r.id()) }

func (r *reader) upTo(most int, n uint64) int {
	if n > uint64(most) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) bytes() []byte {
	n := r.count()
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) text() string { return string(r.bytes()) }

func (r *reader) flags() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	f := r.b[0]
	r.b = r.b[1:]
	return f
}

func (r *reader) time() (t time.Time) {
	if err := t.UnmarshalBinary(r.bytes()); err != nil {
		r.fail()
	}
	return t
}

const (
	deepest = 100 // levels of nested values
	ahead   = 64  // elements allocated before they are read, since a count may be wrong
)

func (r *reader) value(depth int) any {
	if depth > deepest {
		r.fail()
		return nil
	}
	switch r.flags() {
	case 'n':
	case 'f':
		return false
	case 't':
		return true
	case 'i':
		return int(r.int())
	case 'l':
		return r.int()
	case 'd':
		if len(r.b) < 8 {
			r.fail()
			return nil
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(r.b))
		r.b = r.b[8:]
		return f
	case 's':
		return r.text()
	case 'N':
		return r.number()
	case 'D':
		return time.Duration(r.int())
	case 'T':
		return r.time()
	case 'b':
		return slices.Clone(r.bytes())
	case '[':
		n := r.count()
		all := make([]any, 0, min(n, ahead))
		for i := 0; i < n && r.err == nil; i++ {
			all = append(all, r.value(depth+1))
		}
		return all
	case '{':
		n := r.count()
		all := make(map[string]any, min(n, ahead))
		for i := 0; i < n && r.err == nil; i++ {
			k := r.text()
			all[k] = r.value(depth + 1)
		}
		return all
	default:
		r.fail()
	}
	return nil
}

// number reads an integer of any size, and checks it, since it could end up in a document.
func (r *reader) number() any {
	n, err := doc.Decode(r.bytes())
	switch n.(type) {
	case int, float64, doc.Number:
		if err == nil {
			return n
		}
	}
	r.fail()
	return nil
}

// mostVars bounds the vars of a message: their names are all in a configuration.
const mostVars = 4096

func (r *reader) vars() (v engine.Vars) {
	for n := r.upTo(mostVars, r.id()); n > 0 && r.err == nil; n-- {
		name := r.text()
		if _, again := v.Get(name); again {
			r.fail()
		}
		v = v.With(name, r.value(0))
	}
	return v
}

func (r *reader) meta() engine.Meta {
	n, own := r.count(), r.small()
	if own > n {
		r.fail()
		return engine.Meta{}
	}
	if n == 0 {
		return engine.Meta{}
	}
	var names []string
	var values []any
	seen := make(map[string]bool, min(n, ahead))
	for i := 0; i < n && r.err == nil; i++ {
		name := r.text()
		names, values = append(names, name), append(values, r.value(0))
		if seen[name] {
			r.fail()
		}
		seen[name] = true
	}
	if r.err != nil {
		return engine.Meta{}
	}
	return engine.MetaOf(names, values, own)
}

// classes are the classes of a step's error.
var classes = []engine.Class{
	engine.Transient, engine.Permanent, engine.Auth, engine.Rejected, engine.Expression, engine.Decode, engine.Timeout,
	engine.Late, engine.Panicked,
}

func (r *reader) failure() *engine.Error {
	e := &engine.Error{Class: engine.Class(r.text()), Step: r.text(), Output: r.text(), Attempt: int(r.int()),
		Delay: time.Duration(r.int()), FirstFailed: r.time()}
	e.Err = errors.New(r.text())
	e.Detail = r.text()
	if !slices.Contains(classes, e.Class) {
		e.Class = engine.Permanent
	}
	e.Delay = min(max(0, e.Delay), time.Hour)
	return e
}
