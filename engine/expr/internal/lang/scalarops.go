package lang

import (
	"cmp"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// compare is the order of two scalars of one kind.
func (s Scalar) compare(t Scalar) (c int, ok bool) {
	switch {
	case s.Kind == value.Int && t.Kind == value.Int:
		return cmp.Compare(s.int(), t.int()), true
	case s.Kind == value.Text && t.Kind == value.Text:
		return strings.Compare(s.Text, t.Text), true
	case s.Kind == value.Float && t.Kind == value.Float:
		return cmp.Compare(s.float(), t.float()), true
	case s.Kind == value.Int && t.Kind == value.Float:
		return value.CompareIntFloat(s.int(), t.float()), true
	case s.Kind == value.Float && t.Kind == value.Int:
		return -value.CompareIntFloat(t.int(), s.float()), true
	}
	return 0, false
}

// equal says whether two scalars are equal. ok is false if their kinds can't be compared.
func (s Scalar) equal(t Scalar) (is Scalar, ok bool) {
	switch {
	case s.Kind == value.Text && t.Kind == value.Text:
		return boolScalar(s.Text == t.Text), true
	case s.Kind == value.Nil || t.Kind == value.Nil || s.Kind == value.Bool && t.Kind == value.Bool:
		return boolScalar(s.Kind == t.Kind && s.bits == t.bits), true
	}
	c, ok := s.compare(t)
	return boolScalar(c == 0), ok
}

// ordered is an operator that is true for some results of compare.
func ordered(less, same, more bool) func(s, t Scalar) (Scalar, bool) {
	holds := [...]bool{less, same, more}
	return func(s, t Scalar) (Scalar, bool) {
		c, ok := s.compare(t)
		return boolScalar(holds[c+1]), ok
	}
}

func ofTexts(is func(text, part string) bool) func(s, t Scalar) (Scalar, bool) {
	return func(s, t Scalar) (Scalar, bool) {
		if s.Kind != value.Text || t.Kind != value.Text {
			return s, false
		}
		return boolScalar(is(s.Text, t.Text)), true
	}
}

// operations are the operators on two scalars. ok is false if a value is rare or wrong, or the result overflows: the closure of
// the operator decides then.
var operations = map[string]func(a, b Scalar) (s Scalar, ok bool){
	"==": Scalar.equal,
	"!=": func(a, b Scalar) (Scalar, bool) {
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
	"+": func(a, b Scalar) (Scalar, bool) {
		if a.Kind == value.Int && b.Kind == value.Int {
			sum := a.int() + b.int()
			return IntScalar(sum), (sum > a.int()) == (b.int() > 0)
		}
		return calculated(a, b, func(x, y float64) float64 { return x + y })
	},
	"-": func(a, b Scalar) (Scalar, bool) {
		if a.Kind == value.Int && b.Kind == value.Int {
			diff := a.int() - b.int()
			return IntScalar(diff), (diff < a.int()) == (b.int() > 0)
		}
		return calculated(a, b, func(x, y float64) float64 { return x - y })
	},
	"*": func(a, b Scalar) (Scalar, bool) {
		if a.Kind == value.Int && b.Kind == value.Int {
			const half = 1 << 31 // products of smaller numbers always fit
			x, y := a.int(), b.int()
			return IntScalar(x * y), -half < x && x < half && -half < y && y < half
		}
		return calculated(a, b, func(x, y float64) float64 { return x * y })
	},
	"/": func(a, b Scalar) (Scalar, bool) {
		return calculated(a, b, func(x, y float64) float64 { return x / y })
	},
	"%": func(a, b Scalar) (Scalar, bool) {
		if a.Kind != value.Int || b.Kind != value.Int || b.int() == 0 {
			return Scalar{}, false
		}
		return IntScalar(a.int() % b.int()), true
	},
}

func calculated(a, b Scalar, op func(x, y float64) float64) (s Scalar, ok bool) {
	x, xok := a.number()
	y, yok := b.number()
	f := op(x, y)
	return floatScalar(f), xok && yok && f-f == 0 // neither infinite nor undefined
}

// operationOf is the scalar of an operator, if both sides are scalars.
func operationOf(op string, l, r Node) ScalarFunc {
	run := operations[op]
	switch {
	case run == nil || l.Scalar == nil || r.Scalar == nil:
		return nil
	case r.Const:
		b, _ := r.Scalar(nil)
		return func(d *doc.Doc) (Scalar, bool) {
			a, ok := l.Scalar(d)
			if !ok {
				return a, false
			}
			return run(a, b)
		}
	}
	return func(d *doc.Doc) (Scalar, bool) {
		a, ok := l.Scalar(d)
		if !ok {
			return a, false
		}
		b, ok := r.Scalar(d)
		if !ok {
			return b, false
		}
		return run(a, b)
	}
}

// among looks for a scalar in a constant list of texts or of integers. It is nil for other lists.
func among(list any) func(Scalar) (Scalar, bool) {
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
	return func(s Scalar) (Scalar, bool) {
		switch {
		case s.Kind == value.Text && len(texts) > 0:
			return boolScalar(texts[s.Text]), true
		case s.Kind == value.Int && len(ints) > 0:
			return boolScalar(ints[s.int()]), true
		}
		return s, false
	}
}

// logicScalar is and, or: both sides are true or false.
func logicScalar(or bool, l, r ScalarFunc) ScalarFunc {
	if l == nil || r == nil {
		return nil
	}
	return func(d *doc.Doc) (Scalar, bool) {
		if s, ok := l(d); !ok || s.is() == or {
			return s, ok
		}
		return r(d)
	}
}
