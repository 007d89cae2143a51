package expr

import (
	"cmp"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// compare is the order of two scalars of one kind.
func (s scalar) compare(t scalar) (c int, ok bool) {
	switch {
	case s.kind == value.Int && t.kind == value.Int:
		return cmp.Compare(s.int(), t.int()), true
	case s.kind == value.Text && t.kind == value.Text:
		return strings.Compare(s.text, t.text), true
	case s.kind == value.Float && t.kind == value.Float:
		return cmp.Compare(s.float(), t.float()), true
	case s.kind == value.Int && t.kind == value.Float:
		return value.CompareIntFloat(s.int(), t.float()), true
	case s.kind == value.Float && t.kind == value.Int:
		return -value.CompareIntFloat(t.int(), s.float()), true
	}
	return 0, false
}

// equal says whether two scalars are equal; ok is false where their kinds can't be compared.
func (s scalar) equal(t scalar) (is scalar, ok bool) {
	switch {
	case s.kind == value.Text && t.kind == value.Text:
		return boolScalar(s.text == t.text), true
	case s.kind == value.Nil || t.kind == value.Nil || s.kind == value.Bool && t.kind == value.Bool:
		return boolScalar(s.kind == t.kind && s.bits == t.bits), true
	}
	c, ok := s.compare(t)
	return boolScalar(c == 0), ok
}

// ordered is an operator that holds for some results of compare.
func ordered(less, same, more bool) func(s, t scalar) (scalar, bool) {
	holds := [...]bool{less, same, more}
	return func(s, t scalar) (scalar, bool) {
		c, ok := s.compare(t)
		return boolScalar(holds[c+1]), ok
	}
}

func ofTexts(is func(text, part string) bool) func(s, t scalar) (scalar, bool) {
	return func(s, t scalar) (scalar, bool) {
		if s.kind != value.Text || t.kind != value.Text {
			return s, false
		}
		return boolScalar(is(s.text, t.text)), true
	}
}

// operations are the operators on two scalars. What is not ok, because a value is rare or
// wrong, or the result an overflow, is left to the operator itself.
var operations = map[string]func(a, b scalar) (s scalar, ok bool){
	"==": scalar.equal,
	"!=": func(a, b scalar) (scalar, bool) {
		s, ok := a.equal(b)
		return boolScalar(!s.is()), ok
	},
	"<":          ordered(true, false, false),
	"<=":         ordered(true, true, false),
	">":          ordered(false, false, true),
	">=":         ordered(false, true, true),
	"contains":   ofTexts(strings.Contains),
	"startsWith": ofTexts(strings.HasPrefix),
	"endsWith":   ofTexts(strings.HasSuffix),
	"+": func(a, b scalar) (scalar, bool) {
		if a.kind == value.Int && b.kind == value.Int {
			sum := a.int() + b.int()
			return intScalar(sum), (sum > a.int()) == (b.int() > 0)
		}
		return calculated(a, b, func(x, y float64) float64 { return x + y })
	},
	"-": func(a, b scalar) (scalar, bool) {
		if a.kind == value.Int && b.kind == value.Int {
			diff := a.int() - b.int()
			return intScalar(diff), (diff < a.int()) == (b.int() > 0)
		}
		return calculated(a, b, func(x, y float64) float64 { return x - y })
	},
	"*": func(a, b scalar) (scalar, bool) {
		if a.kind == value.Int && b.kind == value.Int {
			const half = 1 << 31 // products of what is smaller always fit
			x, y := a.int(), b.int()
			return intScalar(x * y), -half < x && x < half && -half < y && y < half
		}
		return calculated(a, b, func(x, y float64) float64 { return x * y })
	},
	"/": func(a, b scalar) (scalar, bool) {
		return calculated(a, b, func(x, y float64) float64 { return x / y })
	},
	"%": func(a, b scalar) (scalar, bool) {
		if a.kind != value.Int || b.kind != value.Int || b.int() == 0 {
			return scalar{}, false
		}
		return intScalar(a.int() % b.int()), true
	},
}

func calculated(a, b scalar, op func(x, y float64) float64) (s scalar, ok bool) {
	x, xok := a.number()
	y, yok := b.number()
	f := op(x, y)
	return floatScalar(f), xok && yok && f-f == 0 // neither infinite nor undefined
}

// operationOf is the scalar of an operator, if both sides are scalars.
func operationOf(op string, l, r node) scalarFunc {
	run := operations[op]
	switch {
	case run == nil || l.scalar == nil || r.scalar == nil:
		return nil
	case r.konst:
		b, _ := r.scalar(nil)
		return func(d *doc.Doc) (scalar, bool) {
			a, ok := l.scalar(d)
			if !ok {
				return a, false
			}
			return run(a, b)
		}
	}
	return func(d *doc.Doc) (scalar, bool) {
		a, ok := l.scalar(d)
		if !ok {
			return a, false
		}
		b, ok := r.scalar(d)
		if !ok {
			return b, false
		}
		return run(a, b)
	}
}

// among looks for a scalar in a list of texts, or of integers, that is known.
func among(list any) func(scalar) (scalar, bool) {
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
	return func(s scalar) (scalar, bool) {
		switch {
		case s.kind == value.Text && len(texts) > 0:
			return boolScalar(texts[s.text]), true
		case s.kind == value.Int && len(ints) > 0:
			return boolScalar(ints[s.int()]), true
		}
		return s, false
	}
}

// logicScalar is and, or: both sides are true or false.
func logicScalar(or bool, l, r scalarFunc) scalarFunc {
	if l == nil || r == nil {
		return nil
	}
	return func(d *doc.Doc) (scalar, bool) {
		if s, ok := l(d); !ok || s.is() == or {
			return s, ok
		}
		return r(d)
	}
}
