package pool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/inner"
)

// Result is the outcome of a job.
type Result struct {
	Ends []End  // by index of the message
	Made []Made // messages that continue, in order
}

// End is the fate of a message. If no field is set, the message is part of something in Made.
type End struct {
	Err     error // it failed
	Dropped bool  // a step filtered it
	Gone    bool  // `on_error: drop` of a step dropped it
}

// Made is a message that continues.
type Made struct {
	Of       []int // the messages that it was made from
	Body     []byte
	SameBody bool // the body of its single source message; Body is nil
	Meta     engine.Meta
	SameMeta bool
	Vars     engine.Vars
	SameVars bool
}

// Failure returns the first error in r.
func (r *Result) Failure() error {
	if r == nil {
		return nil
	}
	for i := range r.Ends {
		if err := r.Ends[i].Err; err != nil {
			return err
		}
	}
	return nil
}

// Gather returns the outcome of messages from their copies, whose Refs count from 1. of are those messages, or copies
// of them.
func Gather(b *engine.Batch, of []*engine.Message) *Result {
	r := &Result{Ends: make([]End, len(of))}
	found := make([]bool, len(of))
	parts := func(m *engine.Message) (all []int) {
		for ref := range m.Parts() {
			if i := int(ref) - 1; i >= 0 && i < len(of) && !slices.Contains(all, i) {
				all, found[i] = append(all, i), true
			}
		}
		return all
	}
	goes := make([]bool, len(of))
	for m := range b.All() {
		made := Made{Of: parts(m), Body: m.Bytes(), Meta: m.Meta, Vars: m.Vars()}
		if len(made.Of) == 0 {
			continue // a merge of nothing
		}
		for _, i := range made.Of {
			goes[i] = true
		}
		if from := of[made.Of[0]]; len(made.Of) == 1 {
			made.SameBody = inner.Same(from.Bytes(), made.Body)
			made.SameMeta = from.Meta == made.Meta
			made.SameVars = from.Vars() == made.Vars
		}
		r.Made = append(r.Made, made)
	}
	for m := range b.Ended() {
		err := m.Err()
		for _, i := range parts(m) {
			switch e := &r.Ends[i]; {
			case e.Err != nil: // a failed part fails its whole message
			case err != nil && !m.Dropped():
				*e = End{Err: err}
			case !goes[i]:
				e.Dropped = true
			}
		}
	}
	for i := range found {
		if !found[i] {
			r.Ends[i] = End{Gone: true}
		}
	}
	return r
}

// fits reports whether r can be the result of a job with n messages.
func (r *Result) fits(n int) bool {
	if r == nil || len(r.Ends) != n {
		return false
	}
	known := make([]bool, n)
	for i := range r.Made {
		d := &r.Made[i]
		if len(d.Of) == 0 || len(d.Of) > 1 && (d.SameBody || d.SameMeta || d.SameVars) {
			return false
		}
		for _, of := range d.Of {
			if of < 0 || of >= n {
				return false
			}
			known[of] = true
		}
	}
	for i, e := range r.Ends {
		if !known[i] && e == (End{}) {
			return false
		}
	}
	return true
}

// One applies the result to the job's only message, which is parked.
func (r *Result) One(m *engine.Message) error {
	if r.ended(m, 0) {
		return r.Ends[0].Err
	}
	if len(r.Made) != 1 || len(r.Made[0].Of) != 1 {
		return fmt.Errorf("the steps of the pool have turned one message into %d, which can't come back as one (split after the pool)",
			len(r.Made))
	}
	r.Made[0].give(m)
	return nil
}

// ended ends a message that does not continue.
func (r *Result) ended(m *engine.Message, i int) bool {
	switch e := r.Ends[i]; {
	case e.Err != nil:
		m.Fail(e.Err)
	case e.Dropped:
		m.Drop()
	case e.Gone:
		m.EndAs(engine.Dropped)
	default:
		return false
	}
	return true
}

// give applies what was made to a message.
func (d *Made) give(m *engine.Message) {
	if !d.SameBody {
		m.SetBytes(d.Body)
	}
	if !d.SameMeta {
		m.Meta = d.Meta
	}
	if !d.SameVars {
		m.SetVars(d.Vars)
	}
}

// All applies the result to the messages of the job, which are in a batch in flight.
func (r *Result) All(b *engine.Batch, of []*engine.Message) {
	count := make([]int, len(of))
	for i, m := range of {
		if r.ended(m, i) {
			count[i]++
		}
	}
	for i := range r.Made {
		for _, n := range r.Made[i].Of {
			count[n]++
		}
	}
	if r.sorted(count) {
		b.Order(func(yield func(*engine.Message) bool) {
			for i := range r.Made {
				if !yield(of[r.Made[i].Of[0]]) {
					return
				}
			}
		})
	}
	for i := 0; i < len(r.Made); i++ {
		d := &r.Made[i]
		m := of[d.Of[0]]
		switch {
		case len(d.Of) == 1 && r.Ends[d.Of[0]] != (End{}):
		case len(d.Of) > 1:
			r.merge(b, d, of, count)
		case count[d.Of[0]] == 1:
			d.give(m)
		default:
			n := i + 1
			for n < len(r.Made) && len(r.Made[n].Of) == 1 && r.Made[n].Of[0] == d.Of[0] {
				n++
			}
			split(b, m, r.Made[i:n], count[d.Of[0]])
			i = n - 1
		}
	}
}

// sorted reports whether the steps have only changed the order.
func (r *Result) sorted(count []int) bool {
	last, sorted := -1, false
	for i := range r.Made {
		of := r.Made[i].Of
		if len(of) > 1 || count[of[0]] > 1 {
			return false
		}
		sorted, last = sorted || of[0] < last, of[0]
	}
	return sorted
}

// merge merges messages that are part of nothing else.
func (r *Result) merge(b *engine.Batch, d *Made, of []*engine.Message, count []int) {
	if slices.ContainsFunc(d.Of, func(i int) bool { return count[i] > 1 }) {
		for _, i := range d.Of {
			if r.Ends[i] == (End{}) {
				of[i].Fail(errors.New("the steps of the pool have both split and merged this message, or one that it was merged with, which can't " +
					"be applied here (do one of them after the pool)"))
			}
		}
		return
	}
	m := b.Merge(d.Body, func(yield func(*engine.Message) bool) {
		for _, i := range d.Of {
			if !yield(of[i]) {
				return
			}
		}
	})
	m.Meta = d.Meta
	m.SetVars(d.Vars)
}

// split splits a message.
func split(b *engine.Batch, m *engine.Message, parts []Made, n int) {
	if len(parts) != n {
		m.Fail(errors.New("the steps of the pool have separated the parts of this message, which can't be applied here (split after the pool)"))
		return
	}
	for i := range parts {
		if parts[i].SameMeta != parts[0].SameMeta || parts[i].Meta != parts[0].Meta {
			m.Fail(errors.New(
				"the steps of the pool have given the parts of this message different metadata, which can't be applied here (set it after the pool)"))
			return
		}
		if parts[i].SameVars != parts[0].SameVars || parts[i].Vars != parts[0].Vars {
			m.Fail(errors.New(
				"the steps of the pool have given the parts of this message different vars, which can't be applied here (write `let` after the pool)"))
			return
		}
	}
	if !parts[0].SameMeta {
		m.Meta = parts[0].Meta
	}
	if !parts[0].SameVars {
		m.SetVars(parts[0].Vars)
	}
	whole := m.Bytes()
	b.Split(m, func(yield func([]byte, error) bool) {
		for i := range parts {
			body := parts[i].Body
			if parts[i].SameBody {
				body = whole
			}
			if !yield(body, nil) {
				return
			}
		}
	})
}
