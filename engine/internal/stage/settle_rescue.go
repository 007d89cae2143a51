package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// rescue gives a message that has failed in a block to the on_error of that block, or of those around it. False: none of
// them takes it. It does not go on inside of the block: in a group there, or as a part of a merge that is undone.
func (out *outcome) rescue(m *engine.Message, at *stage) bool {
	if out.Handing() {
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
		out.endPiece(m, engine.Dropped)
	default:
		return false
	}
	return true
}

// fallBack sends a message that an output has failed for good to the next output of its fallback, with the payload that
// the failed output received. It returns false if there is no next output, or if the message failed elsewhere.
func (out *outcome) fallBack(m *engine.Message, at *stage) bool {
	if at == nil || msg(m).Err.Output == "" || out.Handing() {
		return false
	}
	if len(msg(m).Of) > 0 && msg(m).Part == 0 && branchOf(&msg(m).Of[0]).hasOriginal() {
		return false // the output's own steps have merged it, and the next output has other steps
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
	if msg(m).Dead { // its reason stays the same
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

// undoMerge takes a merge that has failed apart. Each part fails with the same error: then decides what becomes of it.
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
