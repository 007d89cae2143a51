package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Class says what kind of failure an [Error] is, and with it what is done about it.
type Class string

// The classes of failure.
const (
	Transient  Class = "transient"  // may work when tried again; what outputs mean by a plain error
	Permanent  Class = "permanent"  // will never work; what steps mean by a plain error
	Auth       Class = "auth"       // credentials refused: every message would fail
	Rejected   Class = "rejected"   // the other side refused this message
	Expression Class = "expression" // an expression met a type or value it can't work on
	Decode     Class = "decode"     // the payload is not what it should be
	Unrouted   Class = "unrouted"   // no batcher takes the message
	Timeout    Class = "timeout"    // a step or write passed its deadline
	Late       Class = "late"       // after its window
	TooLarge   Class = "too_large"  // would grow beyond what may be in flight at once
	Panicked   Class = "panic"      // the plugin panicked
)

// Fault is what is wrong with a message itself, in words for its sender: without names,
// places and values of the pipeline. An input that answers shows its client no more of an
// error than the Fault that it wraps.
type Fault string

func (f Fault) Error() string { return string(f) }

// Error is why a message failed: the class that a plugin gave, and where and
// when, which the engine adds.
type Error struct {
	Class       Class
	Step        string // the step that failed, by name or type
	Output      string // the output that failed
	Attempt     int    // of the write or step, from 1
	FirstFailed time.Time
	Delay       time.Duration // the server's hint when to retry; 0: none
	// Mistake says that the configuration does not fit what the system has, such as a queue that does not exist. It ends
	// the start of a pipeline, and is an outage later.
	Mistake bool
	// Holds says that nothing was written, and nothing can be now: the output is held and probed, and no attempt is
	// counted. For steps see retryPlan.again.
	Holds bool
	Err   error

	unfinished bool            // of a message that a drain handed back
	secrets    *schema.Secrets // that its text does not show
}

// ErrGone is wrapped by an Output's error when its sink will never take a message
// again: a standard output whose reader has left. The pipeline stops then, as
// with `then: stop`, whatever on_failure says.
var ErrGone = errors.New("gone for good")

// ErrEnd says that an input has ended: no Read will bring more. Read returns it as it is: it is compared by identity, so
// neither an error that wraps it nor one that a library gives, such as io.EOF of a connection that was cut, ends an
// input. Any other error is a fault, after which the input is opened again.
var ErrEnd = errors.New("the input has ended")

// ErrBehind is what a sequential output fails a message with that it did not write because
// an earlier one of its key failed in the same write. It is not an attempt: the message is
// written after that one. An [Acker] sees it as the reason of a message that goes back to a
// source that withholds because an earlier one of its key does.
var ErrBehind = errors.New("after a failed message with the same key")

// Errorf makes an error of a class.
func Errorf(class Class, format string, args ...any) *Error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// WithClass gives err a class; nil stays nil.
func WithClass(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: class, Err: err}
}

// Error is the cause's text. Of an error that the engine knows of, it shows no secret.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Class)
	}
	return e.secrets.Mask(e.Err.Error())
}

// Unfinished says that the message did not fail: a drain or a stop handed it back.
func (e *Error) Unfinished() bool { return e.unfinished }

// HoldsOutput says that the output is to be held, and its messages are not to blame.
func (e *Error) HoldsOutput() bool { return e.Class == Auth || e.Holds }

// Mask keeps secrets out of the text of e.
func (e *Error) Mask(s *schema.Secrets) { e.secrets = s }

// HandedBack makes e the reason of a message that did not fail: a drain or a stop hands it back.
func (e *Error) HandedBack() *Error {
	e.unfinished = true
	return e
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Place names the step or output that failed, or is "".
func (e *Error) Place() string {
	switch {
	case e.Output != "":
		return "output " + e.Output
	case e.Step != "":
		return "step " + e.Step
	}
	return ""
}

// Passes reports whether the cause of err may go away although nobody changes the configuration: the server can't be
// reached, is busy or does not answer in time. Its class says so, transient or timeout; a plain error does not. See
// [Opener] for what that means at the start.
func Passes(err error) bool {
	if err == nil {
		return false
	}
	e := ErrorOf(err, Permanent)
	return (e.Class == Transient || e.Class == Timeout) && !e.Mistake
}

// FailedSince is when what err reports began: the FirstFailed that an input has set because
// the call that failed had lasted for long, otherwise now.
func FailedSince(err error) time.Time {
	var e *Error
	if errors.As(err, &e) && !e.FirstFailed.IsZero() {
		return e.FirstFailed
	}
	return time.Now()
}

// ErrorOf finds the *Error in err or makes one: its own classifier (a method Class), a
// deadline, otherwise fallback.
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
