package expr

import (
	"cmp"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// verdict is what a test says about a condition.
type verdict uint8

// A test that can't decide, because a value is rare or wrong, leaves the answer or the
// error to the full evaluation.
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

func (v verdict) not() verdict {
	switch v {
	case yes:
		return no
	case no:
		return yes
	}
	return unsure
}

// compare is the order of two scalars of one kind.
func (s scalar) compare(t scalar) (c int, ok bool) {
	switch {
	case s.kind == kInt && t.kind == kInt:
		return cmp.Compare(s.int(), t.int()), true
	case s.kind == kText && t.kind == kText:
		return strings.Compare(s.text, t.text), true
	case s.kind == kFloat && t.kind == kFloat:
		return cmp.Compare(s.float(), t.float()), true
	case s.kind == kInt && t.kind == kFloat:
		return compareIntFloat(s.int(), t.float()), true
	case s.kind == kFloat && t.kind == kInt:
		return -compareIntFloat(t.int(), s.float()), true
	}
	return 0, false
}

func (s scalar) equal(t scalar) verdict {
	switch {
	case s.kind == kText && t.kind == kText:
		return verdictOf(s.text == t.text)
	case s.kind == kNil || t.kind == kNil || s.kind == kBool && t.kind == kBool:
		return verdictOf(s.kind == t.kind && s.bits == t.bits)
	}
	c, ok := s.compare(t)
	if !ok {
		return unsure
	}
	return verdictOf(c == 0)
}

// ordered is an operator that holds for some results of compare.
func ordered(less, same, more bool) func(s, t scalar) verdict {
	holds := [...]verdict{verdictOf(less), verdictOf(same), verdictOf(more)}
	return func(s, t scalar) verdict {
		c, ok := s.compare(t)
		if !ok {
			return unsure
		}
		return holds[c+1]
	}
}

func ofTexts(is func(text, part string) bool) func(s, t scalar) verdict {
	return func(s, t scalar) verdict {
		if s.kind != kText || t.kind != kText {
			return unsure
		}
		return verdictOf(is(s.text, t.text))
	}
}

// decisions are the operators that say yes or no about two scalars.
var decisions = map[string]func(s, t scalar) verdict{
	"==":         scalar.equal,
	"!=":         func(s, t scalar) verdict { return s.equal(t).not() },
	"<":          ordered(true, false, false),
	"<=":         ordered(true, true, false),
	">":          ordered(false, false, true),
	">=":         ordered(false, true, true),
	"contains":   ofTexts(strings.Contains),
	"startsWith": ofTexts(strings.HasPrefix),
	"endsWith":   ofTexts(strings.HasSuffix),
}

// testOf is the test of an operator, if both sides are scalars.
func testOf(op string, l, r node) func(*doc.Doc) verdict {
	decide := decisions[op]
	switch {
	case op == "in" && l.scalar != nil && r.konst:
		return inTest(l.scalar, r.value)
	case decide == nil || l.scalar == nil || r.scalar == nil:
		return nil
	case r.konst:
		b, _ := r.scalar(nil)
		return func(d *doc.Doc) verdict {
			a, ok := l.scalar(d)
			if !ok {
				return unsure
			}
			return decide(a, b)
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
		return decide(a, b)
	}
}

// inTest looks for a scalar in a list of texts, or of integers, that is known.
func inTest(l scalarFunc, list any) func(*doc.Doc) verdict {
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
			return verdictOf(texts[s.text])
		case ok && s.kind == kInt && len(ints) > 0:
			return verdictOf(ints[s.int()])
		}
		return unsure
	}
}

// truthTest decides a condition that is a field.
func truthTest(s scalarFunc) func(*doc.Doc) verdict {
	return func(d *doc.Doc) verdict {
		v, ok := s(d)
		if !ok || v.kind != kBool {
			return unsure
		}
		return verdictOf(v.is())
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
