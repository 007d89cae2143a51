package expr

import (
	"bytes"
	"cmp"
	"strconv"
	"unsafe"

	"github.com/flowd-io/flowd/engine/doc"
)

// verdict is what a test says about a condition.
type verdict uint8

// A test that can't tell, because a value is rare or wrong, leaves the answer or
// the error to the evaluation proper.
const (
	unsure verdict = iota
	no
	yes
)

func verdictOf(is bool) verdict {
	if is {
		return yes
	}
	return no
}

// scalar is a value as its source text has it, without allocation.
type scalar struct {
	kind kinds
	i    int
	f    float64
	text []byte
	is   bool
}

// readScalar reads the value at a path; ok is false when it takes a decoder.
func readScalar(d *doc.Doc, p doc.Path) (s scalar, ok bool) {
	raw, there, err := d.Raw(p)
	if err != nil {
		return s, false
	}
	if !there || len(raw) == 0 {
		return scalar{kind: kNil}, err == nil
	}
	switch raw[0] {
	case 'n':
		return scalar{kind: kNil}, true
	case 't', 'f':
		return scalar{kind: kBool, is: raw[0] == 't'}, true
	case '"':
		text := raw[1 : len(raw)-1]
		return scalar{kind: kText, text: text}, bytes.IndexByte(text, '\\') < 0
	case '[', '{':
		return s, false
	}
	return readNumber(raw)
}

// readNumber reads a number that int64 or a float holds.
func readNumber(raw []byte) (s scalar, ok bool) {
	digits, neg := raw, raw[0] == '-'
	if neg {
		digits = raw[1:]
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || len(digits) > 18 {
			return readFloat(raw)
		}
		n = n*10 + int(c-'0')
	}
	if neg {
		n = -n
	}
	return scalar{kind: kInt, i: n}, !neg || n != 0
}

func readFloat(raw []byte) (s scalar, ok bool) {
	if !bytes.ContainsAny(raw, ".eE") {
		return s, false
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	return scalar{kind: kFloat, f: f}, err == nil
}

// constantScalar gives a constant to tests; nil when it is no scalar.
func constantScalar(v any) func(*doc.Doc) (scalar, bool) {
	var s scalar
	switch v := v.(type) {
	case nil:
		s.kind = kNil
	case bool:
		s = scalar{kind: kBool, is: v}
	case int:
		s = scalar{kind: kInt, i: v}
	case float64:
		s = scalar{kind: kFloat, f: v}
	case string:
		s = scalar{kind: kText, text: []byte(v)}
	default:
		return nil
	}
	return func(*doc.Doc) (scalar, bool) { return s, true }
}

func coalesceScalar(l, r func(*doc.Doc) (scalar, bool)) func(*doc.Doc) (scalar, bool) {
	if l == nil || r == nil {
		return nil
	}
	return func(d *doc.Doc) (scalar, bool) {
		if s, ok := l(d); !ok || s.kind != kNil {
			return s, ok
		}
		return r(d)
	}
}

// compare is the order of two scalars of one kind.
func (s *scalar) compare(t *scalar) (c int, ok bool) {
	switch {
	case s.kind == kInt && t.kind == kInt:
		return cmp.Compare(s.i, t.i), true
	case s.kind == kText && t.kind == kText:
		return bytes.Compare(s.text, t.text), true
	case s.kind == kFloat && t.kind == kFloat:
		return cmp.Compare(s.f, t.f), true
	case s.kind == kInt && t.kind == kFloat:
		return compareIntFloat(s.i, t.f), true
	case s.kind == kFloat && t.kind == kInt:
		return -compareIntFloat(t.i, s.f), true
	}
	return 0, false
}

// decide is what an operator says about two scalars. It has one body for all
// operators so that scalars stay on the stack.
func decide(op string, s, t *scalar) verdict {
	switch op {
	case "==":
		return s.equal(t)
	case "!=":
		return s.equal(t).not()
	case "contains", "startsWith", "endsWith":
		if s.kind != kText || t.kind != kText {
			return unsure
		}
		switch op {
		case "contains":
			return verdictOf(bytes.Contains(s.text, t.text))
		case "startsWith":
			return verdictOf(bytes.HasPrefix(s.text, t.text))
		}
		return verdictOf(bytes.HasSuffix(s.text, t.text))
	}
	c, ok := s.compare(t)
	if !ok {
		return unsure
	}
	switch op {
	case "<":
		return verdictOf(c < 0)
	case "<=":
		return verdictOf(c <= 0)
	case ">":
		return verdictOf(c > 0)
	case ">=":
		return verdictOf(c >= 0)
	}
	return unsure
}

func (v verdict) not() verdict {
	switch v {
	case yes:
		return no
	case no:
		return yes
	}
	return unsure
}

func (s *scalar) equal(t *scalar) verdict {
	if s.kind == kNil || t.kind == kNil || s.kind == kBool && t.kind == kBool {
		return verdictOf(s.kind == t.kind && s.is == t.is)
	}
	c, ok := s.compare(t)
	if !ok {
		return unsure
	}
	return verdictOf(c == 0)
}

// decidable are the operators that decide knows.
var decidable = map[string]bool{
	"==": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true,
	"contains": true, "startsWith": true, "endsWith": true,
}

// testOf is the test of an operator, if both sides are scalars.
func testOf(op string, l, r node) func(*doc.Doc) verdict {
	switch {
	case op == "in" && l.scalar != nil && r.konst:
		return inTest(l.scalar, r.value)
	case !decidable[op] || l.scalar == nil || r.scalar == nil:
		return nil
	case r.konst:
		b, _ := r.scalar(nil)
		return func(d *doc.Doc) verdict {
			a, ok := l.scalar(d)
			if !ok {
				return unsure
			}
			return decide(op, &a, &b)
		}
	}
	return func(d *doc.Doc) verdict {
		a, ok := l.scalar(d)
		if !ok {
			return unsure
		}
		b, ok := r.scalar(d)
		if !ok {
			return unsure
		}
		return decide(op, &a, &b)
	}
}

// inTest looks for a scalar in a list of texts, or of integers, that is known.
func inTest(l func(*doc.Doc) (scalar, bool), list any) func(*doc.Doc) verdict {
	elems, _ := list.([]any)
	texts, ints := map[string]bool{}, map[int]bool{}
	for _, e := range elems {
		switch e := e.(type) {
		case string:
			texts[e] = true
		case int:
			ints[e] = true
		default:
			return nil
		}
	}
	if len(texts) > 0 && len(ints) > 0 || len(elems) == 0 {
		return nil
	}
	return func(d *doc.Doc) verdict {
		s, ok := l(d)
		switch {
		case ok && s.kind == kText && len(texts) > 0:
			return verdictOf(texts[string(s.text)])
		case ok && s.kind == kInt && len(ints) > 0:
			return verdictOf(ints[s.i])
		}
		return unsure
	}
}

// truthTest decides a condition that is a field.
func truthTest(s func(*doc.Doc) (scalar, bool)) func(*doc.Doc) verdict {
	return func(d *doc.Doc) verdict {
		v, ok := s(d)
		if !ok || v.kind != kBool {
			return unsure
		}
		return verdictOf(v.is)
	}
}

func notTest(x func(*doc.Doc) verdict) func(*doc.Doc) verdict {
	if x == nil {
		return nil
	}
	return func(d *doc.Doc) verdict { return x(d).not() }
}

func logicTest(or bool, l, r func(*doc.Doc) verdict) func(*doc.Doc) verdict {
	if l == nil || r == nil {
		return nil
	}
	decides := verdictOf(or)
	return func(d *doc.Doc) verdict {
		v := l(d)
		if v == unsure || v == decides {
			return v
		}
		return r(d)
	}
}
