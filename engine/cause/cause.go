// Package cause turns the errors of a system into errors that flowd acts on. What each error means is data: a [Table] of
// the system has a [Row] for every error that needs more than its own text, and from the row's [Kind] follows whether
// the message is tried again, whether the output is held, and whether the start of a pipeline fails.
package cause

import (
	"context"
	"errors"
	"slices"
	"strings"

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
	// Missing says that the system has not got what the configuration names, such as a queue, or has another one than the
	// configuration describes. The start of a pipeline fails; later somebody may mend it, so it is tried again.
	Missing
	// Awaited says that the system has not got what the configuration names, and that it is tried again until it has, at
	// the start of a pipeline, too.
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

// errorOf is the error that a kind makes, without a cause.
func (k Kind) errorOf() engine.Error {
	switch k {
	case Unreachable, Busy:
		return engine.Error{Class: engine.Transient, Holds: true}
	case Slow:
		return engine.Error{Class: engine.Timeout}
	case Missing:
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

// Row says what an error means. It is about the errors that match one of Is, Codes and If.
type Row struct {
	Is    error            // errors.Is
	Codes []string         // of the system, see Table.Code; one that ends in * stands for all that begin like it
	If    func(error) bool // anything else

	Kind   Kind
	Says   string // what the user reads in place of the error's own text; "": that text
	Remedy string // what to do about it; "": nothing
}

// Table says what the errors of a system mean. It must not change once it is used.
type Table struct {
	// Code returns the system's own code of an error, and its text without what a library adds. It returns "" for an error
	// without a code; an empty text stands for the error's own. nil: errors have no codes.
	Code func(err error) (code, text string)
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
	e, text, remedy := t.judge(err)
	if doing != "" {
		text = doing + ": " + text
	}
	if remedy != "" {
		text += " (" + remedy + ")"
	}
	e.Err = explained{text, err}
	return &e
}

// Holds reports whether err means that an output is to be held: nothing was written, and nothing can be at present.
func (t *Table) Holds(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	_, kind, _ := t.find(err)
	e := kind.errorOf()
	return e.HoldsOutput()
}

func (t *Table) judge(err error) (e engine.Error, text, remedy string) {
	row, kind, text := t.find(err)
	if row != nil {
		remedy = row.Remedy
		if row.Says != "" {
			text = row.Says
		}
	}
	return kind.errorOf(), text, remedy
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

// explained is an error in other words.
type explained struct {
	text  string
	cause error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.cause }

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
	e.Err = explained{strings.Join(texts, "; "), errors.Join(errs...)}
	return e
}
