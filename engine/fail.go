package engine

import (
	"fmt"
)

// lostWith is why a message is lost that had not ended when the pipeline stopped;
// cause is what interrupted it or what it waited for, or nil.
func lostWith(cause *Error) *Error {
	const why = "the pipeline stopped before this message was finished, and its source takes nothing back"
	if cause == nil {
		e := Errorf(Transient, why)
		e.HandedBack()
		return e
	}
	return (&Error{Class: cause.Class, Step: cause.Step, Output: cause.Output, Err: fmt.Errorf(why+": %w", cause)}).HandedBack()
}

// returnable says whether a source takes back something of m.
func (m *Message) returnable() (yes bool) {
	m.eachRoot(func(r root) { yes = yes || r.led.takes != TakesNothing })
	return yes
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
