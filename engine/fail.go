package engine

import (
	"errors"
	"fmt"
	"time"
)

// fail sends a failed message where on_failure says. A merge is undone: each of
// its parts fails by itself, as it was before.
func (t *tally) fail(m *Message, out *outRun) {
	if t.r.passesOn() { // its root goes on in the next plan
		return
	}
	m.in.Err.secrets = t.r.plan.secrets
	if t.rescue(m, out) || t.fallBack(m, out) {
		return
	}
	if len(m.in.Of) > 0 && m.in.Part == 0 { // a part of a split merge fails alone
		t.undo(m, func(p *Message) { t.fail(p, out) })
		return
	}
	t.forfeit(m, out)
	p := t.r.plan.failure
	if out != nil && out.plan.failure != nil {
		p = *out.plan.failure
	}
	if m.in.Dead { // a dead letter was refused for good: what is left is the default
		p, m.in.Err = policy{}, m.unburied()
	}
	if p.then == thenDefault {
		p.then = firstRoot(m).led.then
	}
	if errors.Is(m.in.Err, ErrGone) {
		p.then = thenStop
	}
	if t.r.handing.Load() {
		p.then = thenReturn
	}
	switch p.then {
	case thenDeadLetter:
		m.bury()
		t.r.plan.emitEvent(Event{Kind: EventDeadLetter, Name: placeOf(m.in.Err), N: 1, Err: m.in.Err})
		t.send(t.r.target(p.deadLetter), m)
	case thenReturn:
		t.giveBack(m, !t.r.handing.Load())
	case thenStop:
		err := m.in.Err
		t.giveBack(m, true)
		t.r.fail(err)
	default:
		t.r.failures.add(m, Dropped)
		t.end(m, Dropped)
	}
}

// giveBack hands m back to its source, because it has failed or is unfinished. What no
// source takes back is lost: it ends as dropped, and is reported in either case.
func (t *tally) giveBack(m *Message, failed bool) {
	f := Returned
	if !m.returnable() {
		f = Dropped
		if !failed {
			m.in.Err = lostWith(m.in.Err)
		}
	}
	if failed || f == Dropped {
		t.r.failures.add(m, f)
	}
	t.end(m, f)
}

// lostWith is why a message is lost that had not ended when the pipeline stopped;
// cause is what interrupted it or what it waited for, or nil.
func lostWith(cause *Error) *Error {
	const why = "the pipeline stopped before this message was finished, and its source takes nothing back"
	if cause == nil {
		e := Errorf(Transient, why)
		e.unfinished = true
		return e
	}
	return &Error{Class: cause.Class, Step: cause.Step, Output: cause.Output, Err: fmt.Errorf(why+": %w", cause), unfinished: true}
}

// returnable says whether a source takes back something of m.
func (m *Message) returnable() (yes bool) {
	m.eachRoot(func(r root) { yes = yes || r.led.takes != TakesNothing })
	return yes
}

// undo makes the parts of a merge that failed messages again, each failed like it.
func (t *tally) undo(m *Message, then func(part *Message)) {
	t.consumed++
	t.made += int64(len(m.in.Of))
	t.release(m)
	for i := range m.in.Of {
		p := &m.in.Of[i]
		e := *m.in.Err
		p.in.State, p.in.Err = failed, &e
		p.in.Batch = m.in.Batch
		setVia(p, viaOf(m).bare()) // where the merge was, not its parts before it
		p.in.Stage, p.in.Groups = m.in.Stage, m.in.Groups
		then(p)
	}
}

// bury makes a dead letter of m: the payload as received or split, the metadata,
// and error_* beside it.
func (m *Message) bury() {
	if m.in.Orig != nil {
		m.in.Doc.Reset(m.in.Orig, nil)
	}
	m.explain()
	m.in.BatchKey, m.in.Batch = "", nil
	setTrial(m, &trial{reason: m.in.Err})
	setVia(m, nil)
	setBlock(m, nil)
	m.in.State, m.in.Stage, m.in.Dead = live, fresh, true
}

// unburied is why a message failed whose dead letter was refused.
func (m *Message) unburied() *Error {
	if trialOf(m) == nil || trialOf(m).reason == nil {
		return m.in.Err
	}
	e := *trialOf(m).reason
	e.Delay, e.Err = m.in.Err.Delay, m.bothReasons()
	return &e
}

// bothReasons is what the write of m failed with. For a dead letter it says first why
// m is one.
func (m *Message) bothReasons() error {
	if !m.in.Dead || trialOf(m) == nil || trialOf(m).reason == nil {
		return m.in.Err
	}
	what := "its dead letter can't be written"
	if place := m.in.Err.Place(); place != "" {
		what += ": " + place
	}
	return fmt.Errorf("%w; %s: %w", trialOf(m).reason, what, m.in.Err)
}

// explain adds to the metadata of m why it failed.
func (m *Message) explain() {
	m.Meta = m.Meta.
		With("error_class", string(m.in.Err.Class)).
		With("error_message", m.in.Err.Error()).
		With("error_step", m.in.Err.Step).
		With("error_output", m.in.Err.Output).
		With("error_attempt", m.in.Err.Attempt).
		With("error_first_failed", m.in.Err.FirstFailed.UTC())
	if m.in.Part > 0 {
		m.Meta = m.Meta.With("error_part", int(m.in.Part))
	}
}

// stepError adds to an error what the engine knows of it.
func stepError(e *Error, o *op) {
	if e.Step == "" {
		e.Step = o.name
	}
	if o.in != nil {
		e.secrets = o.in.secrets
	}
	complete(e, Permanent)
}

func complete(e *Error, fallback Class) {
	if e.Class == "" {
		e.Class = fallback
	}
	if e.Attempt == 0 {
		e.Attempt = 1
	}
	if e.FirstFailed.IsZero() {
		e.FirstFailed = time.Now()
	}
}
