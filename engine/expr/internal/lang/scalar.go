package lang

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

// Scalar is nil, a bool, an int, a float64 or a text, without an allocation. It is small enough to be passed in registers.
type Scalar struct {
	Kind value.Kinds
	bits uint64 // of a bool, an int or a float64
	Text string
}

// ScalarFunc computes a scalar. ok is false if only the closure of the node can decide: a rare value, or an error.
type ScalarFunc func(*doc.Doc) (s Scalar, ok bool)

func IntScalar(n int) Scalar       { return Scalar{Kind: value.Int, bits: uint64(n)} }
func floatScalar(f float64) Scalar { return Scalar{Kind: value.Float, bits: math.Float64bits(f)} }
func TextScalar(s string) Scalar   { return Scalar{Kind: value.Text, Text: s} }

func boolScalar(is bool) Scalar {
	if is {
		return Scalar{Kind: value.Bool, bits: 1}
	}
	return Scalar{Kind: value.Bool}
}

func (s Scalar) is() bool       { return s.bits != 0 }
func (s Scalar) int() int       { return int(s.bits) }
func (s Scalar) float() float64 { return math.Float64frombits(s.bits) }

// number is a number as a float. ok is false for other kinds.
func (s Scalar) number() (f float64, ok bool) {
	if s.Kind == value.Int {
		return float64(s.int()), true
	}
	return s.float(), s.Kind == value.Float
}

// readScalar reads the value at a path.
func readScalar(d *doc.Doc, p doc.Path) (s Scalar, ok bool) {
	raw, there, err := d.Raw(p)
	if err != nil {
		return s, false
	}
	if !there || len(raw) == 0 {
		return Scalar{Kind: value.Nil}, true
	}
	switch raw[0] {
	case 'n':
		return Scalar{Kind: value.Nil}, true
	case 't', 'f':
		return boolScalar(raw[0] == 't'), true
	case '"':
		// The document never writes to text that it has edited or searched.
		text := unsafe.String(unsafe.SliceData(raw[1:]), max(0, len(raw)-2))
		return TextScalar(text), strings.IndexByte(text, '\\') < 0
	case '[', '{':
		return s, false
	}
	if n, ok := doc.ParseInt(raw); ok {
		return IntScalar(n), true
	}
	return readFloat(raw)
}

// ReadLength is the length of the text or the list at a path. A list is counted without decoding if decoding could not fail
// for any of its elements.
func ReadLength(d *doc.Doc, p doc.Path) (s Scalar, ok bool) {
	raw, there, err := d.Raw(p)
	if err != nil || !there || len(raw) == 0 || raw[0] != '[' {
		if s, ok = readScalar(d, p); ok {
			return s.Length()
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
	return IntScalar(n), true
}

// readFloat reads a number with a point or an exponent. ok is false for an integer beyond int64.
func readFloat(raw []byte) (s Scalar, ok bool) {
	for _, c := range raw {
		if c == '.' || c|0x20 == 'e' {
			f, ok := doc.ParseFloat(raw)
			return floatScalar(f), ok
		}
	}
	return s, false
}

// constantScalar is a constant, or nil if it is not a scalar.
func constantScalar(v any) ScalarFunc {
	var s Scalar
	switch v := v.(type) {
	case nil:
		s.Kind = value.Nil
	case bool:
		s = boolScalar(v)
	case int:
		s = IntScalar(v)
	case float64:
		s = floatScalar(v)
	case string:
		s = TextScalar(v)
	default:
		return nil
	}
	return func(*doc.Doc) (Scalar, bool) { return s, true }
}

func coalesceScalar(l, r ScalarFunc) ScalarFunc {
	if l == nil || r == nil {
		return nil
	}
	return func(d *doc.Doc) (Scalar, bool) {
		if s, ok := l(d); !ok || s.Kind != value.Nil {
			return s, ok
		}
		return r(d)
	}
}

// choiceScalar is cond ? a : b, where cond is true or false.
func choiceScalar(cond, a, b ScalarFunc) ScalarFunc {
	if cond == nil || a == nil || b == nil {
		return nil
	}
	return func(d *doc.Doc) (Scalar, bool) {
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

// Then applies f to the result of x. It is nil if x or f is nil.
func (x ScalarFunc) Then(f func(s Scalar) (Scalar, bool)) ScalarFunc {
	if x == nil || f == nil {
		return nil
	}
	return func(d *doc.Doc) (Scalar, bool) {
		s, ok := x(d)
		if !ok {
			return s, false
		}
		return f(s)
	}
}

// truth leaves values other than true and false to the closure.
func (s Scalar) truth() (Scalar, bool) { return s, s.Kind == value.Bool }

// not is the opposite of true or false.
func (s Scalar) not() (Scalar, bool) { return boolScalar(!s.is()), true }

// negated is -s.
func (s Scalar) negated() (Scalar, bool) {
	switch {
	case s.Kind == value.Int && s.int() != math.MinInt:
		return IntScalar(-s.int()), true
	case s.Kind == value.Float:
		return floatScalar(-s.float()), true
	}
	return s, false
}

// Length is len(s) of a text.
func (s Scalar) Length() (Scalar, bool) {
	return IntScalar(utf8.RuneCountInString(s.Text)), s.Kind == value.Text
}

// append appends the scalar as JSON, as doc.Append does.
func (s Scalar) append(dst []byte) []byte {
	switch s.Kind {
	case value.Bool:
		return strconv.AppendBool(dst, s.is())
	case value.Int:
		return strconv.AppendInt(dst, int64(s.int()), 10)
	case value.Float:
		return doc.AppendFloat(dst, s.float())
	case value.Text:
		return doc.AppendString(dst, s.Text)
	}
	return append(dst, "null"...)
}

// appendText appends the scalar as AppendText does.
func (s Scalar) appendText(dst []byte) []byte {
	if s.Kind == value.Text {
		return append(dst, s.Text...)
	}
	return s.append(dst)
}

// value is the scalar as evaluations have it.
func (s Scalar) value() any {
	switch s.Kind {
	case value.Bool:
		return s.is()
	case value.Int:
		return s.int()
	case value.Float:
		return s.float()
	case value.Text:
		return s.Text
	}
	return nil
}
