package lang

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/schema"
)

// Error is the failure of an expression, at load or on a message.
type Error struct {
	Expr   string     // the source, as written
	Offset int        // of the failing part, in bytes of Expr
	Msg    string     // "cannot compare text \"503\" with number 500 using =="
	Remedy string     // what to write instead, or ""
	Pos    schema.Pos // of the failing part in its file; zero when there is none

	cause error // the error of a function, or of a value that could not be read
}

// Unwrap is the error of the function or the document, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Error is three lines: the message, the line of the expression, a caret.
func (e *Error) Error() string {
	line, col := e.line()
	if line == "" {
		return e.Short()
	}
	return e.Short() + "\n  " + line + "\n  " + strings.Repeat(" ", col) + "^"
}

// Short is the message and the remedy on one line.
func (e *Error) Short() string {
	if e.Remedy == "" {
		return e.Msg
	}
	return e.Msg + " (" + e.Remedy + ")"
}

// shownLine is how many characters of a long line an error shows.
const shownLine = 100

// line is the part of the source to show, and the caret's column in it, in characters.
func (e *Error) line() (text string, col int) {
	at := min(max(e.Offset, 0), len(e.Expr))
	start := strings.LastIndexByte(e.Expr[:at], '\n') + 1
	text, _, _ = strings.Cut(e.Expr[start:], "\n")
	runes := []rune(strings.Map(blank, text))
	col = utf8.RuneCountInString(e.Expr[start:at])
	if len(runes) <= shownLine {
		return string(runes), col
	}
	from := min(max(col-shownLine/2, 0), len(runes)-shownLine)
	return string(runes[from : from+shownLine]), col - from
}

// blank replaces control characters, which would move the caret.
func blank(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// failure is a panic by which an operation ends the evaluation or the compilation: operations return nothing but a value. Programs
// and Compile recover it, so callers of this package never see one.
type failure struct {
	err    error // of the document or a function, or nil
	offset int   // in the compiled code
	msg    string
	remedy string
	final  bool // it ends the whole evaluation: try() does not catch it
}

func (f *failure) Error() string { return f.msg }

// fail ends the evaluation, or the compilation, at a place in the code.
func fail(offset int, format string, args ...any) {
	panic(&failure{offset: offset, msg: fmt.Sprintf(format, args...)})
}

// failWith is fail with a remedy.
func failWith(offset int, remedy, format string, args ...any) {
	panic(&failure{offset: offset, msg: fmt.Sprintf(format, args...), remedy: remedy})
}

// failFinal is failWith for a failure that try() does not catch.
func failFinal(offset int, remedy, format string, args ...any) {
	panic(&failure{offset: offset, msg: fmt.Sprintf(format, args...), remedy: remedy, final: true})
}

// caught is the failure that a deferred function has recovered, or nil. It panics again with anything else.
func caught(recovered any) *failure {
	f, ok := recovered.(*failure)
	if recovered != nil && !ok {
		panic(recovered)
	}
	return f
}

// ErrorAt is an error at an offset in the code.
func ErrorAt(o *codetext.Origin, offset int, msg, remedy string) error {
	return errorOf(o, &failure{offset: offset, msg: msg, remedy: remedy})
}

// errorOf is the error that users see of a failure.
func errorOf(o *codetext.Origin, f *failure) error {
	if _, ok := errors.AsType[*doc.SyntaxError](f.err); ok {
		return f.err
	}
	msg := f.msg
	if msg == "" && f.err != nil {
		msg = f.err.Error()
	}
	e := &Error{Expr: o.Text, Offset: o.At(f.offset), Msg: msg, Remedy: f.remedy, cause: f.err}
	if o.Place.Node != nil {
		e.Pos = o.Place.Node.At(e.Offset)
	}
	return e
}
