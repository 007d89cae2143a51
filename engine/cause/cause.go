// Package cause turns the errors of a system into errors that flowd acts on. What each error means is data: a [Table] of
// the system has a [Row] for every error that needs more than its own text, and from the row's [Kind] follows whether
// the message is tried again, whether the output is held, and whether the start of a pipeline fails.
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

// Kind is what an error means for what was asked, and for what is asked next.
type Kind uint8

// The kinds of errors.
const (
	// Lost says that the connection ended, or an answer made no sense: what was asked may have been done. It is tried
	// again.
	Lost Kind = iota
	// Unreachable says that nothing was sent, since there is no connection. Outputs are held.
	Unreachable
	// Busy says that the system serves nobody at present: it starts, has no room, or has no leader. Outputs are held.
	Busy
	// Throttled says that the system wants fewer requests. It is tried again.
	Throttled
	// Slow says that there was no answer in time: what was asked may have been done. It is tried again.
	Slow
	// Missing says that the system does not have what the configuration names, such as a queue. The start of a pipeline
	// fails. Later somebody may create it: outputs are held.
	Missing
	// Mismatched says that the system has something else than the configuration describes. The start of a pipeline fails;
	// later it is tried again.
	Mismatched
	// Awaited says that the system does not have what the configuration names yet. Outputs are held and a pipeline waits,
	// at its start, too.
	Awaited
	// Credentials says that a login or a permission is refused. The start of a pipeline fails; later outputs are held.
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

// Row says what an error means. It matches an error that one of Is, Codes and If matches.
type Row struct {
	Is    error            // errors.Is
	Codes []string         // of the system, see Table.Code; one that ends in * stands for all that begin like it
	If    func(error) bool // anything else

	Kind   Kind
	Says   string // what the user reads in place of the error's own text; "": that text
	Remedy string // what to do about it; "": nothing
	Means  error  // nil, or what callers look for by errors.Is
}

// Table says what the errors of a system mean. It must not change once it is used.
type Table struct {
	// Code returns the system's own code of an error, and its text without what a library adds. It returns "" for an error
	// without a code; an empty text stands for the error's own. nil: errors have no codes.
	Code func(err error) (code, text string)
	// Delay returns how long the system asks to wait before the next try; 0: it does not ask. nil: it never does.
	Delay func(err error) time.Duration
	// Rows are tried in turn. The first that matches counts.
	Rows []Row
	// Refused is the kind of an error with a code for which there is no row.
	Refused Kind
}

// Explain gives an error the class that its row says, and a text: what was being done, what is wrong and what to do about
// it. The error wraps err. Returned as they are: nil, an [engine.Error], and what a caller has cancelled.
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

// AnyOf returns a condition for [Row]: an error is one of these.
func AnyOf(errs ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(errs, func(e error) bool { return errors.Is(err, e) })
	}
}

// Held returns err as one that holds the output: nothing was written, and no message is to blame.
func Held(err error) error {
	e := engine.ErrorOf(err, engine.Transient)
	e.Holds = true
	return e
}

// explained is an error in other words.
type explained struct {
	text  string
	cause error
	means error // what it is besides its cause; nil: nothing
}

func (e explained) Error() string        { return e.text }
func (e explained) Unwrap() error        { return e.cause }
func (e explained) Is(target error) bool { return e.means != nil && target == e.means }

// All returns the error of several servers, none of which could be used: their texts, and the meaning of the first that
// may pass, or of the first.
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
