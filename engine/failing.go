package engine

import (
	"errors"
	"time"
)

// fail sends a failed message where on_failure says. A merge is undone: each of
// its parts fails by itself, as it was before.
func (t *tally) fail(m *Message, out *outRun) {
	if t.r.passesOn() { // its root goes on in the next plan
		return
	}
	m.in.Err.Mask(t.r.plan.secrets)
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
	if t.r.handing() {
		p.then = thenReturn
	}
	switch p.then {
	case thenDeadLetter:
		m.bury()
		t.r.plan.emitEvent(Event{Kind: EventDeadLetter, Name: placeOf(m.in.Err), N: 1, Err: m.in.Err})
		t.send(t.r.target(p.deadLetter), m)
	case thenReturn:
		t.giveBack(m, !t.r.handing())
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

// hand gives m back to its source because a drain leaves it no time.
func (t *tally) hand(m *Message) {
	if t.r.passesOn() {
		return
	}
	if trialOf(m) != nil && trialOf(m).err != nil {
		m.in.Err = trialOf(m).err
	}
	m.in.Err = (&Error{Class: m.in.Err.Class, Step: m.in.Err.Step, Output: m.in.Err.Output, Err: m.in.Err}).HandedBack()
	if len(m.in.Of) > 0 && m.in.Part == 0 {
		t.undo(m, t.hand)
		return
	}
	t.giveBack(m, false)
}

// await takes over a message that is to be tried again. It waits beside the
// queues, with those that failed together with it.
func (t *tally) await(m *Message, out *outRun) {
	r := t.r
	room := trialOf(m).forRoom()
	if r.handing() || !room && r.tooLate(trialOf(m).due) { // the drain ends before
		t.hand(m)
		return
	}
	if wait := time.Until(trialOf(m).due); wait > leftToSource && m.sourceDelays() >= wait && !r.plan.ordered {
		m.in.Err.Delay = wait
		t.end(m, Returned)
		return
	}
	if trialOf(m).cause == nil {
		m.in.Stage = atWrite
	}
	t.own(m, out)
	t.leave(m)
	m.in.State = live
	for _, b := range t.waiting {
		first := &b.in.Msgs[0]
		if !room && !trialOf(first).forRoom() && outOf(b) == out && b.in.Stage == m.in.Stage && inputOf(b) == t.in && len(b.in.Msgs) < slabSize &&
			first.in.Batch == m.in.Batch && trialOf(first).cause == trialOf(m).cause && trialOf(first).attempts == trialOf(m).attempts && trialOf(first).err.Delay == trialOf(m).err.Delay {
			trialOf(m).due = trialOf(first).due
			b.in.Take(m)
			return
		}
	}
	b := new(Batch)
	if m.in.Batch != nil {
		b = m.in.Batch.in.Like()
		b.in.Arena = nil
	}
	b.in.Stage = m.in.Stage
	setInput(b, t.in)
	setOut(b, out)
	if trialOf(m).cause == nil {
		b.in.Stage = atWrite
	}
	b.in.Take(m)
	t.waiting = append(t.waiting, b)
}

// own makes m hold its keys, or its place, where it is.
func (t *tally) own(m *Message, out *outRun) {
	if t.in != nil {
		t.r.holds.leaveGap(m)
		return
	}
	t.r.holds.own(m, out.spot())
}

// behind takes over a message that was not written because an earlier one of its
// key failed: it waits for that one, or goes again where that one has moved on.
func (t *tally) behind(m *Message, out *outRun) bool {
	if !t.r.plan.ordered || t.r.handing() {
		return false
	}
	m.in.State, m.in.Err, m.in.Stage = live, nil, atWrite
	if trialOf(m) != nil {
		m.in.Err = trialOf(m).reason
	}
	t.r.holds.own(m, out.spot()) // what is queued is later
	if t.r.holds.passes(nil, m, out.spot()) {
		t.goWith(out, m, atWrite)
	}
	return true
}

// postpone gives the slabs of messages that are to be tried again to the timers.
func (t *tally) postpone() {
	for i, b := range t.waiting {
		t.waiting[i] = nil
		n, err := 0, trialOf(&b.in.Msgs[0]).err
		text := []byte(nil)
		for i := range b.in.Msgs {
			m := &b.in.Msgs[i]
			text = m.in.CopyOut(text)
			n += m.weight()
			m.in.Batch, m.in.Err = nil, trialOf(m).reason
		}
		t.r.credits.keep(n)
		t.r.retrying.Add(int64(len(b.in.Msgs)))
		if trialOf(&b.in.Msgs[0]).forRoom() {
			t.r.lineUp(b)
			continue
		}
		t.r.plan.emitEvent(Event{Kind: EventRetry, Name: placeOf(err), N: len(b.in.Msgs), Err: err})
		r := t.r
		if out := outOf(b); out != nil && b.in.Stage == atWrite {
			out.expires(b)
		}
		r.timers.after(trialOf(&b.in.Msgs[0]).due, b, func() { r.retry(b) })
	}
	t.waiting = t.waiting[:0]
}

// leftToSource is the wait beyond which a source that can delay one message gets
// it back, with that delay.
const leftToSource = 10 * time.Second
