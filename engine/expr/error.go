package expr

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/schema"
)

// Error is an expression that failed, at load or on a message: what, where, and
// the types it met.
type Error struct {
	Expr   string     // the source, as written
	Offset int        // of the failing part, in bytes of Expr
	Msg    string     // "cannot compare text \"503\" with number 500 using =="
	Remedy string     // what to write instead, or ""
	Pos    schema.Pos // of the failing part in its file; zero when there is none

	cause error // of a function that failed, or a value that could not be read
}

// Unwrap is what a function or the document said, or nil.
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

// blank keeps control characters of a source from moving the caret.
func blank(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// failure is how an operation deep inside an evaluation ends it: operations give nothing but a value. run and compile
// catch failures, so no other code sees one.
type failure struct {
	err    error // what the document or a function said, or nil
	offset int   // in the compiled code
	msg    string
	remedy string
	final  bool // the whole evaluation is at its end: try() does not help
}

func (f *failure) Error() string { return f.msg }

// fail ends the evaluation, or the compilation, at a place in the code.
func fail(offset int, format string, args ...any) {
	panic(&failure{offset: offset, msg: fmt.Sprintf(format, args...)})
}

// failFor is fail with a remedy.
func failFor(offset int, remedy, format string, args ...any) {
	panic(&failure{offset: offset, msg: fmt.Sprintf(format, args...), remedy: remedy})
}

// end is failFor for the whole evaluation.
func end(offset int, remedy, format string, args ...any) {
	panic(&failure{offset: offset, msg: fmt.Sprintf(format, args...), remedy: remedy, final: true})
}

// caught is the failure that a deferred function recovered, or nil. Other panics go on.
func caught(recovered any) *failure {
	f, ok := recovered.(*failure)
	if recovered != nil && !ok {
		panic(recovered)
	}
	return f
}

// errorOf is what a user gets to see of a failure.
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
