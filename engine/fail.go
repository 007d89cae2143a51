package engine

import (
	"errors"
	"fmt"
	"time"
)

// then is what becomes of a failed message.
type then uint8

const (
	thenDefault then = iota // what the source can: return, stop or drop
	thenDeadLetter
	thenReturn
	thenDrop
	thenStop
)

var thens = map[string]then{"": thenDefault, "dead_letter": thenDeadLetter, "return": thenReturn, "drop": thenDrop, "stop": thenStop}

// policy is where failed messages go.
type policy struct {
	then       then
	deadLetter *outputPlan
}

// fail sends a failed message where on_failure says. A merge is undone: each of
// its parts fails by itself, as it was before.
func (t *tally) fail(m *Message, out *outRun) {
	if t.r.passesOn() { // its root goes on in the next plan
		return
	}
	m.err.secrets = t.r.plan.secrets
	if t.rescue(m, out) || t.fallBack(m, out) {
		return
	}
	if len(m.of) > 0 && m.part == 0 { // a part of a split merge fails alone
		t.undo(m, func(p *Message) { t.fail(p, out) })
		return
	}
	t.forfeit(m, out)
	p := t.r.plan.failure
	if out != nil && out.plan.failure != nil {
		p = *out.plan.failure
	}
	if m.dead { // a dead letter was refused for good: what is left is the default
		p, m.err = policy{}, m.unburied()
	}
	if p.then == thenDefault {
		p.then = firstRoot(m).led.then
	}
	if errors.Is(m.err, ErrGone) {
		p.then = thenStop
	}
	if t.r.handing.Load() {
		p.then = thenReturn
	}
	switch p.then {
	case thenDeadLetter:
		m.bury()
		t.r.plan.emitEvent(Event{Kind: EventDeadLetter, Name: placeOf(m.err), N: 1, Err: m.err})
		t.send(t.r.target(p.deadLetter), m)
	case thenReturn:
		t.giveBack(m, !t.r.handing.Load())
	case thenStop:
		err := m.err
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
			m.err = lostWith(m.err)
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
	t.made += int64(len(m.of))
	t.release(m)
	for i := range m.of {
		p := &m.of[i]
		e := *m.err
		p.state, p.err = failed, &e
		p.batch = m.batch
		setVia(p, viaOf(m).bare()) // where the merge was, not its parts before it
		p.stage, p.groups = m.stage, m.groups
		then(p)
	}
}

// bury makes a dead letter of m: the payload as received or split, the metadata,
// and error_* beside it.
func (m *Message) bury() {
	if m.orig != nil {
		m.doc.Reset(m.orig, nil)
	}
	m.explain()
	m.batchKey, m.batch = "", nil
	setTrial(m, &trial{reason: m.err})
	setVia(m, nil)
	setBlock(m, nil)
	m.state, m.stage, m.dead = live, fresh, true
}

// unburied is why a message failed whose dead letter was refused.
func (m *Message) unburied() *Error {
	if trialOf(m) == nil || trialOf(m).reason == nil {
		return m.err
	}
	e := *trialOf(m).reason
	e.Delay, e.Err = m.err.Delay, m.bothReasons()
	return &e
}

// bothReasons is what the write of m failed with. For a dead letter it says first why
// m is one.
func (m *Message) bothReasons() error {
	if !m.dead || trialOf(m) == nil || trialOf(m).reason == nil {
		return m.err
	}
	what := "its dead letter can't be written"
	if place := m.err.Place(); place != "" {
		what += ": " + place
	}
	return fmt.Errorf("%w; %s: %w", trialOf(m).reason, what, m.err)
}

// explain adds to the metadata of m why it failed.
func (m *Message) explain() {
	m.Meta = m.Meta.
		With("error_class", string(m.err.Class)).
		With("error_message", m.err.Error()).
		With("error_step", m.err.Step).
		With("error_output", m.err.Output).
		With("error_attempt", m.err.Attempt).
		With("error_first_failed", m.err.FirstFailed.UTC())
	if m.part > 0 {
		m.Meta = m.Meta.With("error_part", int(m.part))
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
