package stage

import (
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// fail sends a failed message where on_failure says, if nothing else takes it. A merge is
// undone: each of its parts fails separately, as it was before.
func (out *outcome) fail(m *engine.Message, at *stage) {
	if out.PassesOn() { // its root continues in the next plan
		return
	}
	msg(m).Err.Mask(out.layout.Secrets)
	switch {
	case out.rescue(m, at), out.fallBack(m, at):
		return
	case len(msg(m).Of) > 0 && msg(m).Part == 0: // a part of a split merge fails alone
		out.undoMerge(m, func(p *engine.Message) { out.fail(p, at) })
		return
	}
	out.rollBack(m, at)
	if msg(m).Dead {
		msg(m).Err = refusedDeadLetter(m)
	}
	switch p := out.policy(m, at); p.Then {
	case ledger.ThenDeadLetter:
		makeDeadLetter(m)
		out.layout.EmitEvent(engine.Event{Kind: engine.EventDeadLetter, Name: placeOf(msg(m).Err), N: 1,
			Err: msg(m).Err})
		out.send(out.outputs[p.DeadLetter], m)
	case ledger.ThenReturn:
		out.giveBack(m, !out.Handing())
	case ledger.ThenStop:
		err := msg(m).Err
		out.stopBehind(m, at)
		out.giveBack(m, true)
		out.verdict.Fail(err)
	default:
		out.Failures.Add(m, engine.Dropped)
		out.end(m, engine.Dropped)
	}
}

// stopBehind holds back what is behind m in its keys until the run ends, which returns it, too: its source then delivers
// all of that again, in order.
func (out *outcome) stopBehind(m *engine.Message, at *stage) {
	if out.layout.Ordered && !msg(m).Dead {
		out.holdKeys(m, at)
		order.EachLeafKey(m, func(leaf *engine.Message) { order.SetClaim(leaf, nil) }) // nobody frees them
	}
}

// policy is where m goes, which has failed for good. For a dead letter that was refused the default is left.
func (out *outcome) policy(m *engine.Message, at *stage) (p Policy) {
	switch {
	case msg(m).Dead:
	case at != nil && at.failure != nil:
		p = *at.failure
	default:
		p = out.layout.Failure
	}
	switch {
	case out.Handing():
		p.Then = ledger.ThenReturn
	case errors.Is(msg(m).Err, engine.ErrGone):
		p.Then = ledger.ThenStop
	case p.Then == ledger.ThenDefault:
		p.Then = ledger.FirstRoot(m).Led.Then
	}
	return p
}

// rescue lets a message that has failed in a block continue, but not where the block's own
// steps run: in a group inside, or as a part of a merge that is undone.
func (out *outcome) rescue(m *engine.Message, at *stage) bool {
	if steps.BlockOf(m) == nil || out.Handing() {
		return false
	}
	var in *steps.Program
	for msg(m).State == inside.Failed && steps.BlockOf(m) != nil && steps.BlockOf(m).Kind != steps.IsMerged {
		in = steps.BlockOf(m).Of.In
		steps.Rescue(m, in)
	}
	switch msg(m).State {
	case inside.Live:
		if at != nil && in == out.layout.Steps { // it passes through the group, after its steps
			msg(m).Back, msg(m).PC = msg(m).PC, int32(len(at.steps.Ops))
		}
		out.holdKeys(m, at)
		if at != nil {
			out.sendWithBatch(again{at}, m, msg(m).Stage)
			return true
		}
		if out.beyondLanes {
			out.beyond -= flow.Weight(m)
		}
		msg(m).Batch = nil
		out.put(out.lanes, m)
	case inside.Waits:
		out.retryLater(m, at)
	case inside.Discarded:
		out.end(m, engine.Dropped)
	default:
		return false
	}
	return true
}

// fallBack sends a message that an output has failed for good to the next member of its
// fallback. The payload is as that output received it.
func (out *outcome) fallBack(m *engine.Message, at *stage) bool {
	if at == nil || msg(m).Err.Output == "" || branchOf(m) == nil || out.Handing() {
		return false
	}
	if len(msg(m).Of) > 0 && msg(m).Part == 0 && branchOf(&msg(m).Of[0]).hasOriginal() {
		return false // merged by the output's own steps, which the next one does not share
	}
	v := branchOf(m).next()
	if v == nil {
		return false
	}
	if found := branchOf(m).original; found != nil {
		msg(m).Doc.Reset(nil, nil)
		found.Restore(m)
	}
	v.of.passed(m, v.i)
	var tr *retry.Trial
	if msg(m).Dead { // it goes on saying why it is one
		msg(m).Err = retry.TrialOf(m).Reason
		tr = &retry.Trial{Reason: msg(m).Err}
	} else {
		explain(m)
	}
	msg(m).State, msg(m).Stage, msg(m).PC = inside.Live, inside.InOutput, 0
	retry.SetTrial(m, tr)
	if setBranch(m, v.of.branches[v.i+1]); v.outer != nil {
		setBranch(m, &branch{of: v.of, i: v.i + 1, outer: v.outer})
	}
	out.releaseKeys(m)
	out.sendWithBatch(v.of.members[v.i+1], m, inside.InOutput)
	return true
}

// undoMerge makes the parts of a merge that failed messages again, each failed like it.
func (out *outcome) undoMerge(m *engine.Message, then func(part *engine.Message)) {
	out.consumed++
	out.made += int64(len(msg(m).Of))
	out.releaseCredits(m)
	for i := range msg(m).Of {
		p := &msg(m).Of[i]
		e := *msg(m).Err
		msg(p).State, msg(p).Err = inside.Failed, &e
		msg(p).Batch = msg(m).Batch
		setBranch(p, branchOf(m).bare()) // where the merge was, not its parts before it
		msg(p).Stage, msg(p).Groups = msg(m).Stage, msg(m).Groups
		then(p)
	}
}

// makeDeadLetter makes a dead letter of m: the payload as received or split, the metadata, and error_* beside it.
func makeDeadLetter(m *engine.Message) {
	if msg(m).Orig != nil {
		msg(m).Doc.Reset(msg(m).Orig, nil)
	}
	explain(m)
	msg(m).BatchKey, msg(m).Batch = "", nil
	retry.SetTrial(m, &retry.Trial{Reason: msg(m).Err})
	setBranch(m, nil)
	steps.SetBlock(m, nil)
	msg(m).State, msg(m).Stage, msg(m).Dead = inside.Live, inside.Fresh, true
}

// refusedDeadLetter is why a message failed whose dead letter was refused.
func refusedDeadLetter(m *engine.Message) *engine.Error {
	if retry.TrialOf(m) == nil || retry.TrialOf(m).Reason == nil {
		return msg(m).Err
	}
	e := *retry.TrialOf(m).Reason
	e.Delay, e.Err = msg(m).Err.Delay, bothReasons(m)
	return &e
}

// bothReasons is what the write of m failed with. For a dead letter it says first why m is one.
func bothReasons(m *engine.Message) error {
	if !msg(m).Dead || retry.TrialOf(m) == nil || retry.TrialOf(m).Reason == nil {
		return msg(m).Err
	}
	what := "its dead letter can't be written"
	if place := msg(m).Err.Place(); place != "" {
		what += ": " + place
	}
	return fmt.Errorf("%w; %s: %w", retry.TrialOf(m).Reason, what, msg(m).Err)
}

// explain adds to the metadata of m why it failed.
func explain(m *engine.Message) {
	m.Meta = m.Meta.
		With("error_class", string(msg(m).Err.Class)).
		With("error_message", msg(m).Err.Error()).
		With("error_step", msg(m).Err.Step).
		With("error_output", msg(m).Err.Output).
		With("error_attempt", msg(m).Err.Attempt).
		With("error_first_failed", msg(m).Err.FirstFailed.UTC())
	if msg(m).Part > 0 {
		m.Meta = m.Meta.With("error_part", int(msg(m).Part))
	}
}

func placeOf(e *engine.Error) string {
	if e == nil {
		return ""
	}
	if e.Output != "" {
		return e.Output
	}
	return e.Step
}
