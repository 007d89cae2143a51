package expr

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// scalar is a value as its source text has it, without allocation. It is small
// enough to travel in registers.
type scalar struct {
	kind value.Kinds
	bits uint64 // of a bool, an int or a float64
	text string
}

// scalarFunc computes a scalar; ok is false when it takes the evaluation proper,
// for a rare value or an error.
type scalarFunc func(*doc.Doc) (s scalar, ok bool)

func intScalar(n int) scalar       { return scalar{kind: value.Int, bits: uint64(n)} }
func floatScalar(f float64) scalar { return scalar{kind: value.Float, bits: math.Float64bits(f)} }
func textScalar(s string) scalar   { return scalar{kind: value.Text, text: s} }

func boolScalar(is bool) scalar {
	if is {
		return scalar{kind: value.Bool, bits: 1}
	}
	return scalar{kind: value.Bool}
}

func (s scalar) is() bool       { return s.bits != 0 }
func (s scalar) int() int       { return int(s.bits) }
func (s scalar) float() float64 { return math.Float64frombits(s.bits) }

// number is a scalar to calculate with, as a float.
func (s scalar) number() (f float64, ok bool) {
	if s.kind == value.Int {
		return float64(s.int()), true
	}
	return s.float(), s.kind == value.Float
}

// readScalar reads the value at a path.
func readScalar(d *doc.Doc, p doc.Path) (s scalar, ok bool) {
	raw, there, err := d.Raw(p)
	if err != nil {
		return s, false
	}
	if !there || len(raw) == 0 {
		return scalar{kind: value.Nil}, true
	}
	switch raw[0] {
	case 'n':
		return scalar{kind: value.Nil}, true
	case 't', 'f':
		return boolScalar(raw[0] == 't'), true
	case '"':
		// What was edited or searched is text that never changes.
		text := unsafe.String(unsafe.SliceData(raw[1:]), max(0, len(raw)-2))
		return textScalar(text), strings.IndexByte(text, '\\') < 0
	case '[', '{':
		return s, false
	}
	if n, ok := doc.ParseInt(raw); ok {
		return intScalar(n), true
	}
	return readFloat(raw)
}

// readLength is the length of the text or the list at a path. A list is only counted, where its evaluation could not
// find fault with an element.
func readLength(d *doc.Doc, p doc.Path) (s scalar, ok bool) {
	raw, there, err := d.Raw(p)
	if err != nil || !there || len(raw) == 0 || raw[0] != '[' {
		if s, ok = readScalar(d, p); ok {
			return s.length()
		}
		return s, false
	}
	n := 0
	ok = true
	for e := range doc.Elements(raw) {
		switch e[0] {
		case 't', 'f', 'n':
		case '"':
			ok = bytes.IndexByte(e, '\\') < 0
		default:
			ok = len(e) <= 15 && !bytes.ContainsAny(e, "[{eE")
		}
		if !ok {
			return s, false
		}
		n++
	}
	return intScalar(n), true
}

// readFloat reads a number that a float64 holds. An integer beyond int64 is none.
func readFloat(raw []byte) (s scalar, ok bool) {
	for _, c := range raw {
		if c == '.' || c|0x20 == 'e' {
			f, ok := doc.ParseFloat(raw)
			return floatScalar(f), ok
		}
	}
	return s, false
}

// constantScalar gives a constant to tests; nil when it is not a scalar.
func constantScalar(v any) scalarFunc {
	var s scalar
	switch v := v.(type) {
	case nil:
		s.kind = value.Nil
	case bool:
		s = boolScalar(v)
	case int:
		s = intScalar(v)
	case float64:
		s = floatScalar(v)
	case string:
		s = textScalar(v)
	default:
		return nil
	}
	return func(*doc.Doc) (scalar, bool) { return s, true }
}

func coalesceScalar(l, r scalarFunc) scalarFunc {
	if l == nil || r == nil {
		return nil
	}
	return func(d *doc.Doc) (scalar, bool) {
		if s, ok := l(d); !ok || s.kind != value.Nil {
			return s, ok
		}
		return r(d)
	}
}

// choiceScalar is cond ? a : b, where cond is true or false.
func choiceScalar(cond, a, b scalarFunc) scalarFunc {
	if cond == nil || a == nil || b == nil {
		return nil
	}
	return func(d *doc.Doc) (scalar, bool) {
		c, ok := cond(d)
		switch {
		case !ok:
			return c, false
		case c.is():
			return a(d)
		}
		return b(d)
	}
}

// then is what f makes of what x gives; nil without either.
func (x scalarFunc) then(f func(s scalar) (scalar, bool)) scalarFunc {
	if x == nil || f == nil {
		return nil
	}
	return func(d *doc.Doc) (scalar, bool) {
		s, ok := x(d)
		if !ok {
			return s, false
		}
		return f(s)
	}
}

// truth leaves what is neither true nor false to the evaluation proper.
func (s scalar) truth() (scalar, bool) { return s, s.kind == value.Bool }

// not is the opposite of true or false.
func (s scalar) not() (scalar, bool) { return boolScalar(!s.is()), true }

// negated is -s.
func (s scalar) negated() (scalar, bool) {
	switch {
	case s.kind == value.Int && s.int() != math.MinInt:
		return intScalar(-s.int()), true
	case s.kind == value.Float:
		return floatScalar(-s.float()), true
	}
	return s, false
}

// length is len(s) of a text.
func (s scalar) length() (scalar, bool) {
	return intScalar(utf8.RuneCountInString(s.text)), s.kind == value.Text
}

// append appends the scalar as JSON, as doc.Append does.
func (s scalar) append(dst []byte) []byte {
	switch s.kind {
	case value.Bool:
		return strconv.AppendBool(dst, s.is())
	case value.Int:
		return strconv.AppendInt(dst, int64(s.int()), 10)
	case value.Float:
		return doc.AppendFloat(dst, s.float())
	case value.Text:
		return doc.AppendString(dst, s.text)
	}
	return append(dst, "null"...)
}

// appendText appends the scalar as appendText does its value.
func (s scalar) appendText(dst []byte) []byte {
	if s.kind == value.Text {
		return append(dst, s.text...)
	}
	return s.append(dst)
}

// value is the scalar as evaluations have it.
func (s scalar) value() any {
	switch s.kind {
	case value.Bool:
		return s.is()
	case value.Int:
		return s.int()
	case value.Float:
		return s.float()
	case value.Text:
		return s.text
	}
	return nil
}
