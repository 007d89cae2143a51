package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// rescue lets a message go on that has failed in a block, but not where the block's
// own steps run: in a group inside, or as a part of a merge that is undone.
func (t *tally) rescue(m *engine.Message, at *stage) bool {
	if steps.BlockOf(m) == nil || t.r.Handing() {
		return false
	}
	var in *steps.Program
	for msg(m).State == inside.Failed && steps.BlockOf(m) != nil && steps.BlockOf(m).Kind != steps.IsMerged {
		in = steps.BlockOf(m).Of.In
		steps.Rescue(m, in)
	}
	switch msg(m).State {
	case inside.Live:
		if at != nil && in == t.r.plan.Steps { // it goes through the group, behind its steps
			msg(m).Back, msg(m).PC = msg(m).PC, int32(len(at.steps.Ops))
		}
		t.own(m, at)
		if at != nil {
			t.goWith(again{at}, m, msg(m).Stage)
			return true
		}
		if t.past {
			t.beyond -= flow.Weight(m)
		}
		msg(m).Batch = nil
		t.put(toLanes{t.r}, m)
	case inside.Waits:
		t.await(m, at)
	case inside.Discarded:
		t.End(m, engine.Dropped)
	default:
		return false
	}
	return true
}

// again is a stage to which messages come back.
type again struct{ *stage }

func (a again) Push(b *engine.Batch) {
	a.exit.come(len(slab(b).Msgs))
	a.pushAgain(b)
}
