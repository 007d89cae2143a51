package expr

import (
	"fmt"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Remedies that several complaints share.
const (
	ifMissing     = "?? gives a missing field a default"
	largeIntegers = "integers beyond 64 bits compare and copy only; float(x) rounds"
)

// site is one operator or call in the code: where errors point, and what they
// must not show.
type site struct {
	offset int
	name   string
	secret [2]bool // the left, the right operand holds a placeholder's value

	foreign bool // a value may have bytes or a time zone in it: see compiler.foreign

	prepared []any // of a call: what became of the arguments that are known at load; else nil
}

// fail ends the evaluation, or the compilation, here.
func (s *site) fail(format string, args ...any) { fail(s.offset, format, args...) }

// failFor is fail with a remedy.
func (s *site) failFor(remedy, format string, args ...any) {
	failFor(s.offset, remedy, format, args...)
}

// ready is what an argument became at load, or nil.
func (s *site) ready(arg int) any {
	if arg < len(s.prepared) {
		return s.prepared[arg]
	}
	return nil
}

// argument is the site of an argument of the call.
func (s *site) argument(a node) *site {
	return &site{offset: a.offset, name: s.name, secret: [2]bool{a.secret, a.secret}}
}

// prepare keeps what calls need of an argument, or of several.
func (s *site) prepare(arg, args int, v any) {
	if s.prepared == nil {
		s.prepared = make([]any, args)
	}
	s.prepared[arg] = v
}

func (s *site) left(v any) string  { return s.show(0, v) }
func (s *site) right(v any) string { return s.show(1, v) }

func (s *site) show(i int, v any) string {
	if s.secret[i] {
		return value.KindOf(v).String()
	}
	return value.Describe(v)
}

// mismatch ends the evaluation: the operator does not take these two.
func (s *site) mismatch(a, b any) any {
	s.clash(value.KindOf(a), value.KindOf(b), s.left(a), s.right(b))
	return nil
}

// clash ends the evaluation or compilation: the kinds left and right met, which
// a and b describe.
func (s *site) clash(left, right value.Kinds, a, b string) {
	remedy := ""
	switch both := left | right; {
	case left == value.Nil || right == value.Nil:
		remedy = ifMissing
	case both&value.Big != 0 && both&^value.Number == 0:
		remedy = largeIntegers
	case (s.name == "%" || s.name == "..") && both&^value.Number == 0:
		remedy = "it needs whole numbers; int(x) leaves the fraction out"
	case s.name != "+" && (left == value.Time && right&value.Text != 0 || left&value.Text != 0 && right == value.Time):
		remedy = "parse_time(text) reads a time"
	case s.name == "+" && both&value.Text != 0 && both&value.Number != 0 && both&^(value.Text|value.Number) == 0:
		remedy = "string(x) turns a number into text"
	}
	s.failFor(remedy, "%s", s.sentence(a, b))
}

func (s *site) sentence(a, b string) string {
	switch s.name {
	case "==", "!=", "<", "<=", ">", ">=":
		return fmt.Sprintf("cannot compare %s with %s using %s", a, b, s.name)
	case "+":
		return fmt.Sprintf("cannot add %s and %s", a, b)
	case "-":
		return fmt.Sprintf("cannot subtract %s from %s", b, a)
	case "*":
		return fmt.Sprintf("cannot multiply %s by %s", a, b)
	case "/":
		return fmt.Sprintf("cannot divide %s by %s", a, b)
	case "in":
		return fmt.Sprintf("cannot look for %s in %s", a, b)
	case "contains":
		return fmt.Sprintf("cannot look for %s in %s using contains", b, a)
	}
	return fmt.Sprintf("cannot use %s on %s and %s", s.name, a, b)
}

// remedyFor is what helps against one value that an operation can't take, or "".
func remedyFor(v any) string {
	switch value.KindOf(v) {
	case value.Nil:
		return ifMissing
	case value.Big:
		return largeIntegers
	}
	return ""
}
