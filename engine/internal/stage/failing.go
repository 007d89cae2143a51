package stage

import (
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// fail sends a failed message where on_failure says. A merge is undone: each of
// its parts fails by itself, as it was before.
func (t *tally) fail(m *engine.Message, at *stage) {
	if t.r.PassesOn() { // its root goes on in the next plan
		return
	}
	msg(m).Err.Mask(t.r.plan.Secrets)
	if t.rescue(m, at) || t.fallBack(m, at) {
		return
	}
	if len(msg(m).Of) > 0 && msg(m).Part == 0 { // a part of a split merge fails alone
		t.undo(m, func(p *engine.Message) { t.fail(p, at) })
		return
	}
	t.forfeit(m, at)
	p := t.r.plan.Failure
	if at != nil && at.failure != nil {
		p = *at.failure
	}
	if msg(m).Dead { // a dead letter was refused for good: what is left is the default
		p, msg(m).Err = Policy{}, unburied(m)
	}
	if p.Then == ledger.ThenDefault {
		p.Then = ledger.FirstRoot(m).Led.Then
	}
	if errors.Is(msg(m).Err, engine.ErrGone) {
		p.Then = ledger.ThenStop
	}
	if t.r.Handing() {
		p.Then = ledger.ThenReturn
	}
	switch p.Then {
	case ledger.ThenDeadLetter:
		bury(m)
		t.r.plan.EmitEvent(engine.Event{Kind: engine.EventDeadLetter, Name: placeOf(msg(m).Err), N: 1, Err: msg(m).Err})
		t.send(t.r.target(p.DeadLetter), m)
	case ledger.ThenReturn:
		t.giveBack(m, !t.r.Handing())
	case ledger.ThenStop:
		err := msg(m).Err
		t.giveBack(m, true)
		t.r.Fail(err)
	default:
		t.r.Failures.Add(m, engine.Dropped)
		t.End(m, engine.Dropped)
	}
}

// giveBack hands m back to its source, because it has failed or is unfinished. What no
// source takes back is lost: it ends as dropped, and is reported in either case.
func (t *tally) giveBack(m *engine.Message, failed bool) {
	f := engine.Returned
	if !returnable(m) {
		f = engine.Dropped
		if !failed {
			msg(m).Err = lostWith(msg(m).Err)
		}
	}
	if failed || f == engine.Dropped {
		t.r.Failures.Add(m, f)
	}
	t.End(m, f)
}

// undo makes the parts of a merge that failed messages again, each failed like it.
func (t *tally) undo(m *engine.Message, then func(part *engine.Message)) {
	t.consumed++
	t.made += int64(len(msg(m).Of))
	t.release(m)
	for i := range msg(m).Of {
		p := &msg(m).Of[i]
		e := *msg(m).Err
		msg(p).State, msg(p).Err = inside.Failed, &e
		msg(p).Batch = msg(m).Batch
		setVia(p, viaOf(m).bare()) // where the merge was, not its parts before it
		msg(p).Stage, msg(p).Groups = msg(m).Stage, msg(m).Groups
		then(p)
	}
}

// hand gives m back to its source because a drain leaves it no time.
func (t *tally) hand(m *engine.Message) {
	if t.r.PassesOn() {
		return
	}
	if retry.TrialOf(m) != nil && retry.TrialOf(m).Err != nil {
		msg(m).Err = retry.TrialOf(m).Err
	}
	msg(m).Err = (&engine.Error{Class: msg(m).Err.Class, Step: msg(m).Err.Step, Output: msg(m).Err.Output, Err: msg(m).Err}).HandedBack()
	if len(msg(m).Of) > 0 && msg(m).Part == 0 {
		t.undo(m, t.hand)
		return
	}
	t.giveBack(m, false)
}

// await takes over a message that is to be tried again. It waits beside the
// queues, with those that failed together with it.
func (t *tally) await(m *engine.Message, at *stage) {
	r := t.r
	room := steps.ForRoom(retry.TrialOf(m))
	if r.Handing() || !room && r.TooLate(retry.TrialOf(m).Due) { // the drain ends before
		t.hand(m)
		return
	}
	if wait := time.Until(retry.TrialOf(m).Due); wait > leftToSource && sourceDelays(m) >= wait && !r.plan.Ordered {
		msg(m).Err.Delay = wait
		t.End(m, engine.Returned)
		return
	}
	if retry.TrialOf(m).Cause == nil {
		msg(m).Stage = inside.AtWrite
	}
	t.own(m, at)
	t.leave(m)
	msg(m).State = inside.Live
	for _, b := range t.waiting {
		first := &slab(b).Msgs[0]
		if !room && !steps.ForRoom(retry.TrialOf(first)) && stageOf(b) == at && slab(b).Stage == msg(m).Stage && inputOf(b) == t.in && len(slab(b).Msgs) < inside.SlabSize &&
			msg(first).Batch == msg(m).Batch && retry.TrialOf(first).Cause == retry.TrialOf(m).Cause && retry.TrialOf(first).Attempts == retry.TrialOf(m).Attempts && retry.TrialOf(first).Err.Delay == retry.TrialOf(m).Err.Delay {
			retry.TrialOf(m).Due = retry.TrialOf(first).Due
			slab(b).Take(m)
			return
		}
	}
	b := new(engine.Batch)
	if msg(m).Batch != nil {
		b = slab(msg(m).Batch).Like()
		slab(b).Arena = nil
	}
	slab(b).Stage = msg(m).Stage
	setInput(b, t.in)
	setStage(b, at)
	if retry.TrialOf(m).Cause == nil {
		slab(b).Stage = inside.AtWrite
	}
	slab(b).Take(m)
	t.waiting = append(t.waiting, b)
}

// own makes m hold its keys, or its place, where it is.
func (t *tally) own(m *engine.Message, at *stage) {
	if t.in != nil {
		t.r.holds.LeaveGap(m)
		return
	}
	t.r.holds.Own(m, at.spot())
}

// postpone gives the slabs of messages that are to be tried again to the timers.
func (t *tally) postpone() {
	for i, b := range t.waiting {
		t.waiting[i] = nil
		n, err := 0, retry.TrialOf(&slab(b).Msgs[0]).Err
		text := []byte(nil)
		for i := range slab(b).Msgs {
			m := &slab(b).Msgs[i]
			text = msg(m).CopyOut(text)
			n += flow.Weight(m)
			msg(m).Batch, msg(m).Err = nil, retry.TrialOf(m).Reason
		}
		t.r.Credits.Keep(n)
		t.r.Retrying.Add(int64(len(slab(b).Msgs)))
		if steps.ForRoom(retry.TrialOf(&slab(b).Msgs[0])) {
			t.r.lineUp(b)
			continue
		}
		t.r.plan.EmitEvent(engine.Event{Kind: engine.EventRetry, Name: placeOf(err), N: len(slab(b).Msgs), Err: err})
		r := t.r
		if at := stageOf(b); at != nil {
			at.exit.wait(b)
		}
		r.timers.After(retry.TrialOf(&slab(b).Msgs[0]).Due, b, func() { r.retry(b) })
	}
	t.waiting = t.waiting[:0]
}

// leftToSource is the wait beyond which a source that can delay one message gets
// it back, with that delay.
const leftToSource = 10 * time.Second
