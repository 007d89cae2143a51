package engine

import "time"

// await takes over a message that is to be tried again. It waits beside the
// queues, with those that failed together with it.
func (t *tally) await(m *Message, out *outRun) {
	r := t.r
	room := trialOf(m).forRoom()
	if r.handing.Load() || !room && r.tooLate(trialOf(m).due) { // the drain ends before
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
			b.take(m)
			return
		}
	}
	b := new(Batch)
	if m.in.Batch != nil {
		b = m.in.Batch.like()
		b.in.Arena = nil
	}
	b.in.Stage = m.in.Stage
	setInput(b, t.in)
	setOut(b, out)
	if trialOf(m).cause == nil {
		b.in.Stage = atWrite
	}
	b.take(m)
	t.waiting = append(t.waiting, b)
}

// own makes m hold its keys, or its place, where it is.
func (t *tally) own(m *Message, out *outRun) {
	if t.in != nil {
		t.r.holds.leaveGap(m)
		return
	}
	t.r.holds.own(m, out)
}

// behind takes over a message that was not written because an earlier one of its
// key failed: it waits for that one, or goes again where that one has moved on.
func (t *tally) behind(m *Message, out *outRun) bool {
	if !t.r.plan.ordered || t.r.handing.Load() {
		return false
	}
	m.in.State, m.in.Err, m.in.Stage = live, nil, atWrite
	if trialOf(m) != nil {
		m.in.Err = trialOf(m).reason
	}
	t.r.holds.own(m, out) // what is queued is later
	if t.r.holds.passes(nil, m, out) {
		t.goWith(out, m, atWrite)
	}
	return true
}

// leftToSource is the wait beyond which a source that can delay one message gets
// it back, with that delay.
const leftToSource = 10 * time.Second

// sourceDelays is how long m's source can delay it; 0 where m is not all that was
// read, or its source can't.
func (m *Message) sourceDelays() time.Duration {
	r := rootOf(m)
	if r.led == nil || m.in.Part > 0 || len(m.in.Of) > 0 || r.led.roots[r.i].pieces.Load() != 1 {
		return 0
	}
	return r.led.delays
}

// postpone gives the slabs of messages that are to be tried again to the timers.
func (t *tally) postpone() {
	for i, b := range t.waiting {
		t.waiting[i] = nil
		n, err := 0, trialOf(&b.in.Msgs[0]).err
		text := []byte(nil)
		for i := range b.in.Msgs {
			m := &b.in.Msgs[i]
			text = copyOut(m, text)
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

// retry lets messages go on that have waited for another try.
func (r *run) retry(b *Batch) {
	if !r.enter() {
		return
	}
	defer r.leave()
	r.waited(b)
	t := tally{r: r, past: true}
	t.goOn(b, outOf(b))
	t.apply()
}

// waited counts that the messages of b no longer wait.
func (r *run) waited(b *Batch) {
	n := 0
	for i := range b.in.Msgs {
		n += b.in.Msgs[i].weight()
	}
	r.retrying.Add(int64(-len(b.in.Msgs)))
	r.credits.keep(-n)
}

// goOn sends a slab back to where its messages take up again: a lane, or an output.
func (t *tally) goOn(b *Batch, out *outRun) {
	if out != nil {
		b.in.Way.out = nil
		if !trialOf(&b.in.Msgs[0]).forRoom() {
			again{out}.push(b)
		} else { // no other has failed, that a budget could be for
			out.come(len(b.in.Msgs))
			out.push(b)
		}
		return
	}
	for i := range b.in.Msgs {
		t.beyond -= b.in.Msgs[i].weight()
	}
	t.r.upstream.Add(int64(len(b.in.Msgs)))
	t.r.lanes.push(b)
}

// hand gives m back to its source because a drain leaves it no time.
func (t *tally) hand(m *Message) {
	if t.r.passesOn() {
		return
	}
	if trialOf(m) != nil && trialOf(m).err != nil {
		m.in.Err = trialOf(m).err
	}
	m.in.Err = &Error{Class: m.in.Err.Class, Step: m.in.Err.Step, Output: m.in.Err.Output, Err: m.in.Err, unfinished: true}
	if len(m.in.Of) > 0 && m.in.Part == 0 {
		t.undo(m, t.hand)
		return
	}
	t.giveBack(m, false)
}

func placeOf(e *Error) string {
	if e == nil {
		return ""
	}
	if e.Output != "" {
		return e.Output
	}
	return e.Step
}
