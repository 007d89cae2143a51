package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Class is the kind of failure of an [Error]. It decides what the engine does about it.
type Class string

// The classes of failure.
const (
	Transient  Class = "transient"  // may succeed when tried again; the class of an output's plain error
	Permanent  Class = "permanent"  // will never succeed; the class of a step's plain error
	Auth       Class = "auth"       // credentials were refused: every message would fail
	Rejected   Class = "rejected"   // the system refused this message
	Expression Class = "expression" // an expression can't work on a type or value
	Decode     Class = "decode"     // the payload does not have the expected format
	Unrouted   Class = "unrouted"   // no batcher takes the message
	Timeout    Class = "timeout"    // a step or write passed its deadline
	Late       Class = "late"       // after its window
	TooLarge   Class = "too_large"  // would grow beyond what may be in flight at once
	Panicked   Class = "panic"      // the plugin panicked
)

// Fault says what is wrong with a message itself, for its sender: without names, places and values of the pipeline. An
// input that answers its clients shows them only the Fault that an error wraps.
type Fault string

func (f Fault) Error() string { return string(f) }

// Error says why a message failed. The plugin gives the class; the engine adds where and when.
type Error struct {
	Class       Class
	Step        string // the step that failed, by name or type
	Output      string // the output that failed
	Attempt     int    // of the write or step, from 1
	FirstFailed time.Time
	Delay       time.Duration // the least wait before the next attempt, if the server asks for one; 0: it does not
	// Mistake says that the configuration names something that the system does not have, such as a missing queue. At the
	// start of a pipeline it is an error; later it is an outage.
	Mistake bool
	// Holds says that nothing was written, and nothing can be written now. The output is held and probed, and the call
	// does not count as an attempt. A step's call that reached no server does not count either.
	Holds bool
	// Detail is more about the cause, such as a traceback, for the dead letter (error_detail); "": nothing. Neither the log
	// nor Error shows it.
	Detail string
	Err    error

	unfinished bool            // the message did not fail: a drain handed it back
	secrets    *schema.Secrets // masked in its text
}

// ErrGone is wrapped by an Output's error if its sink will never take a message again, such as a standard output whose
// reader has exited. The pipeline then stops as with `then: stop`, whatever on_failure says.
var ErrGone = errors.New("gone for good")

// ErrEnd says that an input has ended: no Read will bring more messages. Read returns it unwrapped, since the engine
// compares it by identity. An error that wraps it does not end the input, and neither does an error of a library, such
// as the io.EOF of a broken connection: after any other error, the input is opened again.
var ErrEnd = errors.New("the input has ended")

// ErrBehind is the error with which a sequential output fails a message that it did not write, because an earlier message
// with the same key failed in the same write. It does not count as an attempt: the message is written after the earlier
// one. An [Acker] gets it as the reason of a message that is returned behind an earlier message with the same key, to a
// source that withholds messages ([Traits.Withholds]).
var ErrBehind = errors.New("after a failed message with the same key")

// Errorf makes an error of a class.
func Errorf(class Class, format string, args ...any) *Error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// WithClass wraps err in an [Error] of a class. It returns nil for nil.
func WithClass(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: class, Err: err}
}

// Error is the text of the cause. Once the engine has seen the error, secrets are masked in it.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Class)
	}
	return e.secrets.Mask(e.Err.Error())
}

// DetailText is Detail. Once the engine has seen the error, secrets are masked in it.
func (e *Error) DetailText() string { return e.secrets.Mask(e.Detail) }

// Unfinished says that the message did not fail: a drain or a stop handed it back.
func (e *Error) Unfinished() bool { return e.unfinished }

// HoldsOutput says that the error holds the output, because its messages are not to blame.
func (e *Error) HoldsOutput() bool { return e.Class == Auth || e.Holds }

// Mask masks secrets in the text of e.
func (e *Error) Mask(s *schema.Secrets) { e.secrets = s }

// HandedBack marks e as the reason of a message that did not fail: a drain or a stop hands it back. It returns e.
func (e *Error) HandedBack() *Error {
	e.unfinished = true
	return e
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Place is "output NAME" or "step NAME" of the failure, or "".
func (e *Error) Place() string {
	switch {
	case e.Output != "":
		return "output " + e.Output
	case e.Step != "":
		return "step " + e.Step
	}
	return ""
}

// Passes reports whether the cause of err may pass without a change of the configuration: the server can't be reached, is
// busy or does not answer in time. The class of such an error is transient or timeout; a plain error has neither. See
// [Opener] for what that means at the start of a pipeline.
func Passes(err error) bool {
	if err == nil {
		return false
	}
	e := ErrorOf(err, Permanent)
	return (e.Class == Transient || e.Class == Timeout) && !e.Mistake
}

// FailedSince is when the failure that err reports began: the FirstFailed of an error whose call had already tried for a
// while, otherwise now.
func FailedSince(err error) time.Time {
	var e *Error
	if errors.As(err, &e) && !e.FirstFailed.IsZero() {
		return e.FirstFailed
	}
	return time.Now()
}

// ErrorOf returns a copy of the *Error in err, or makes one. Its class, if err has none, follows from the cause: documents
// and expressions have classes of their own, and a deadline is a timeout. Otherwise it is fallback.
func ErrorOf(err error, fallback Class) *Error {
	var e *Error
	if errors.As(err, &e) {
		c := *e
		c.Err = err
		if e == err {
			c.Err = e.Err
		}
		if c.Class == "" {
			c.Class = fallback
		}
		return &c
	}
	return &Error{Class: classOf(err, fallback), Err: err}
}
