package lang

import (
	"fmt"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Remedies that several errors share.
const (
	ifMissing     = "?? gives a missing field a default"
	largeIntegers = "integers beyond 64 bits compare and copy only; float(x) rounds"
)

// Site is one operator or call in the code: where errors point, and what they must not show.
type Site struct {
	Offset int     // in the code, in bytes
	Name   string  // of the operator or function
	Secret [2]bool // the left, the right operand has the value of a placeholder in it; for a call, the first says it of all

	foreign bool // a value may have bytes or a time zone in it: see compiler.foreign

	prepared []any // of a call: what was worked out of constant arguments, by their index; nil if nothing was
}

// Fail ends the evaluation, or the compilation, here.
func (s *Site) Fail(format string, args ...any) { fail(s.Offset, format, args...) }

// FailWith is Fail with a remedy.
func (s *Site) FailWith(remedy, format string, args ...any) {
	failWith(s.Offset, remedy, format, args...)
}

// Prepared is what was worked out of an argument when the code was compiled: what its [Role] made of a constant, else nil.
func (s *Site) Prepared(arg int) any {
	if arg < len(s.prepared) {
		return s.prepared[arg]
	}
	return nil
}

// Argument is the site of one argument of the call. Errors about it point there.
func (s *Site) Argument(a Node) *Site {
	return &Site{Offset: a.Offset, Name: s.Name, Secret: [2]bool{a.secret, a.secret}}
}

// SetPrepared keeps what was worked out of an argument. The call has so many args.
func (s *Site) SetPrepared(arg, args int, v any) {
	if s.prepared == nil {
		s.prepared = make([]any, args)
	}
	s.prepared[arg] = v
}

// Show is a value as errors show it. They show no more than its kind if it may be secret.
func (s *Site) Show(v any) string      { return s.showOperand(0, v) }
func (s *Site) showRight(v any) string { return s.showOperand(1, v) }

func (s *Site) showOperand(i int, v any) string {
	if s.Secret[i] {
		return value.KindOf(v).String()
	}
	return value.Describe(v)
}

// failMismatch ends the evaluation because the operator does not take these two values.
func (s *Site) failMismatch(a, b any) any {
	s.failKinds(value.KindOf(a), value.KindOf(b), s.Show(a), s.showRight(b))
	return nil
}

const readsTime = "parse_time(text) reads a time"

// failKinds ends the evaluation or compilation because the operator does not take these kinds. a and b describe the operands.
func (s *Site) failKinds(left, right value.Kinds, a, b string) {
	remedy := ""
	switch both := left | right; {
	case left == value.Nil || right == value.Nil:
		remedy = ifMissing
	case both&value.Big != 0 && both&^value.Number == 0:
		remedy = largeIntegers
	case (s.Name == "%" || s.Name == "..") && both&^value.Number == 0:
		remedy = "it needs whole numbers; int(x) leaves the fraction out"
	case s.Name != "+" && (left == value.Time && right&value.Text != 0 || left&value.Text != 0 && right == value.Time):
		remedy = readsTime
	case s.Name == "+" && both&value.Text != 0 && both&value.Number != 0 && both&^(value.Text|value.Number) == 0:
		remedy = "string(x) turns a number into text"
	}
	s.FailWith(remedy, "%s", s.sentence(a, b))
}

func (s *Site) sentence(a, b string) string {
	switch s.Name {
	case "==", "!=", "<", "<=", ">", ">=":
		return fmt.Sprintf("cannot compare %s with %s using %s", a, b, s.Name)
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
	return fmt.Sprintf("cannot use %s on %s and %s", s.Name, a, b)
}

// remedyFor is the remedy for a value that an operation does not take, or "".
func remedyFor(v any) string {
	switch value.KindOf(v) {
	case value.Nil:
		return ifMissing
	case value.Big:
		return largeIntegers
	}
	return ""
}
