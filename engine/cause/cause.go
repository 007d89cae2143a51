// Package cause classifies the errors of a system. What an error means is data: the [Table] of a system has a [Row] for
// every error that needs more than its own text. The [Kind] of the row decides whether the message is tried again, whether
// the output is held, and whether the start of a pipeline fails.
package cause

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Kind says what an error means for this request and for those that follow.
type Kind uint8

// The kinds of errors.
const (
	// Lost says that the connection ended, or that the answer could not be understood. The request may have taken effect. It
	// is tried again.
	Lost Kind = iota
	// Unreachable says that nothing was sent, since there is no connection. Outputs are held.
	Unreachable
	// Busy says that the system serves no client at present: it is starting, has no space, or has no leader. Outputs are
	// held.
	Busy
	// Throttled says that the system wants fewer requests. The request is tried again.
	Throttled
	// Slow says that there was no answer in time. The request may have taken effect. It is tried again.
	Slow
	// Missing says that the system does not have something that the configuration names, such as a queue. The start of a
	// pipeline fails. Later outputs are held, since somebody may create it.
	Missing
	// Mismatched says that something in the system differs from the configuration. The start of a pipeline fails. Later the
	// request is tried again.
	Mismatched
	// Awaited says that the system does not have something yet that the configuration names. Outputs are held, and a
	// pipeline waits, also at its start.
	Awaited
	// Credentials says that a login or a permission was refused. The start of a pipeline fails. Later outputs are held.
	Credentials
	// Misconfigured says that the configuration can never work with this system.
	Misconfigured
	// Rejected says that the system refuses this message. Others may work.
	Rejected
	// TooLarge says that the system refuses this message because of its size.
	TooLarge
)

// newError returns the error that a kind makes, without a cause.
func (k Kind) newError() engine.Error {
	switch k {
	case Unreachable, Busy, Awaited:
		return engine.Error{Class: engine.Transient, Holds: true}
	case Slow:
		return engine.Error{Class: engine.Timeout}
	case Missing:
		return engine.Error{Class: engine.Transient, Holds: true, Mistake: true}
	case Mismatched:
		return engine.Error{Class: engine.Transient, Mistake: true}
	case Credentials:
		return engine.Error{Class: engine.Auth, Holds: true}
	case Misconfigured:
		return engine.Error{Class: engine.Permanent}
	case Rejected:
		return engine.Error{Class: engine.Rejected}
	case TooLarge:
		return engine.Error{Class: engine.TooLarge}
	}
	return engine.Error{Class: engine.Transient}
}

// Row says what an error means. It matches an error if Is, Codes or If matches it.
type Row struct {
	Is    error            // errors.Is
	Codes []string         // of the system, see Table.Code; a code that ends in * is a prefix
	If    func(error) bool // anything else

	Kind   Kind
	Says   string // the text for the user; "": the error's own text
	Remedy string // what to do about it; "": nothing
	Means  error  // an error that errors.Is finds in the result; nil: none
}

// Table says what the errors of a system mean. It must not be changed after its first use, and is then safe for concurrent
// use.
type Table struct {
	// Code returns the system's own code of an error, or "", and its text without what a library adds; an empty text means
	// the error's own text. nil: errors have no codes.
	Code func(err error) (code, text string)
	// Delay returns how long the system asks the client to wait before the next try; 0: it does not. nil: it never does.
	Delay func(err error) time.Duration
	// Rows are tried in order. The first match counts.
	Rows []Row
	// Refused is the kind of an error with a code for which there is no row.
	Refused Kind
}

// Explain returns an error that wraps err, with the class that follows from its row, and a text that says what was being
// done, what is wrong and what to do about it. It returns nil, an [engine.Error], and the error of a cancelled context
// unchanged.
func (t *Table) Explain(err error, doing string) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*engine.Error](err); known || errors.Is(err, context.Canceled) {
		return err
	}
	row, kind, text := t.find(err)
	e, means := kind.newError(), error(nil)
	if row != nil {
		text, means = cmp.Or(row.Says, text), row.Means
	}
	if doing != "" {
		text = doing + ": " + text
	}
	if row != nil && row.Remedy != "" {
		text += " (" + row.Remedy + ")"
	}
	if t.Delay != nil {
		e.Delay = t.Delay(err)
	}
	e.Err = explained{text, err, means}
	return &e
}

// find returns the row of an error, which is nil if there is none, its kind, and the text of the error.
func (t *Table) find(err error) (row *Row, kind Kind, text string) {
	code := ""
	if t.Code != nil {
		code, text = t.Code(err)
	}
	if text == "" {
		text = err.Error()
	}
	for i := range t.Rows {
		if r := &t.Rows[i]; r.matches(err, code) {
			return r, r.Kind, text
		}
	}
	if code != "" {
		return nil, t.Refused, text
	}
	for i := range network {
		if r := &network[i]; r.matches(err, code) {
			return r, r.Kind, text
		}
	}
	return nil, Lost, text
}

func (r *Row) matches(err error, code string) bool {
	return r.Is != nil && errors.Is(err, r.Is) || r.If != nil && r.If(err) ||
		code != "" && slices.ContainsFunc(r.Codes, func(c string) bool {
			begin, more := strings.CutSuffix(c, "*")
			return c == code || more && strings.HasPrefix(code, begin)
		})
}

// AnyOf returns a condition for [Row]: errors.Is finds one of errs in the error.
func AnyOf(errs ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(errs, func(e error) bool { return errors.Is(err, e) })
	}
}

// Held returns err as an error that holds the output: nothing was written, and no message is to blame.
func Held(err error) error {
	e := engine.ErrorOf(err, engine.Transient)
	e.Holds = true
	return e
}

// explained is an error with another text.
type explained struct {
	text  string
	cause error
	means error // what it is besides its cause; nil: nothing
}

func (e explained) Error() string        { return e.text }
func (e explained) Unwrap() error        { return e.cause }
func (e explained) Is(target error) bool { return e.means != nil && target == e.means }

// All combines the errors of several servers, none of which could be used. The result has all their texts, and the class of
// the first error that may pass, or of the first error if none may. errs must not be empty.
func All(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	texts, counts := make([]string, len(errs)), errs[0]
	for i, err := range errs {
		if texts[i] = err.Error(); !engine.Passes(counts) && engine.Passes(err) {
			counts = err
		}
	}
	e := engine.ErrorOf(counts, engine.Transient)
	e.Err = explained{text: strings.Join(texts, "; "), cause: errors.Join(errs...)}
	return e
}
