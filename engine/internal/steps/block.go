package steps

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// frame is a block of steps that a message is in, one whose failures are dealt with
// as a whole: a `switch`, named steps or a group with `on_error` or `retry`. A
// message has frames only there.
type frame struct {
	Of     *Op // where the block begins
	Kind   frameKind
	before *Original    // what entered the block
	trial  *retry.Trial // of the block, when it is tried again
	outer  *frame       // around it; nil: none
}

type frameKind uint8

const (
	isWhole  frameKind = iota
	isPart             // of a split in the block: it leaves as it was split off, and the block is not tried again
	isSpent            // the rest of a split that broke off: its parts continue, so it can only end
	IsMerged           // in the block: who ends it undoes the merge first, see package stage
)

// BlockOf is the innermost block that m is in, or nil.
func BlockOf(m *engine.Message) *frame {
	if msg(m).Rare == nil {
		return nil
	}
	f, _ := msg(m).Rare.Block.(*frame)
	return f
}

// SetBlock puts m into a block; nil takes it out of all.
func SetBlock(m *engine.Message, f *frame) {
	switch {
	case f != nil:
		msg(m).SetBlock(f)
	case msg(m).Rare != nil:
		msg(m).SetBlock(nil)
	}
}

// IsBlock makes a frame what a message keeps.
func (*frame) IsBlock(inside.Key) {}

// inBlocks puts m, which steps have made inside of blocks, into them as what it is.
func inBlocks(m *engine.Message, kind frameKind) { SetBlock(m, BlockOf(m).as(kind, m)) }

// EndAt lets the instructions from one on, whose end was not known, continue at the end.
func (p *Program) EndAt(from int) {
	for i := from; i < len(p.Ops); i++ {
		if p.Ops[i].Next < 0 {
			p.Ops[i].Next = int32(len(p.Ops))
		}
	}
}

// Enter records m as it enters a block.
func Enter(m *engine.Message, o *Op) {
	f := &frame{Of: o, before: OriginalOf(m), outer: BlockOf(m)}
	if tr := retry.TrialOf(m); tr != nil && tr.Cause == o {
		f.trial = tr
		retry.SetTrial(m, nil)
	}
	SetBlock(m, f)
}

// leave is called when m, with the parts of a merge, has passed through a block.
func leave(m *engine.Message, o *Op) {
	if f := BlockOf(m); f != nil && f.Of == o {
		SetBlock(m, f.outer)
	}
	for i := range msg(m).Of {
		leave(&msg(m).Of[i], o)
	}
}

// as are the frames, from f outwards, of what the block has made: m.
func (f *frame) as(kind frameKind, m *engine.Message) *frame {
	if f == nil {
		return nil
	}
	return &frame{Of: f.Of, Kind: kind, before: OriginalOf(m), outer: f.outer.as(kind, m)}
}

// rescues says whether an on_error around a step takes what it fails.
func (f *frame) rescues() bool {
	for ; f != nil; f = f.outer {
		if f.Of.OnError != fails {
			return true
		}
	}
	return false
}

// Rescue takes a message that has failed out of its block, as it entered it, and does what
// that block's on_error says, as far as the block is in the program that runs the message.
func Rescue(m *engine.Message, in *Program) {
	f := BlockOf(m)
	if f == nil || f.Of.In != in || f.Kind == IsMerged {
		return
	}
	f.before.Restore(m)
	retry.SetTrial(m, f.trial)
	SetBlock(m, f.outer)
	o := f.Of
	switch f.Kind {
	case isPart:
		again := *o
		again.Retry = nil
		o = &again
	case isSpent:
		o = o.onlyEnds()
	}
	o.Failed(m, msg(m).Err)
}

// onlyEnds is o for a message that can't continue.
func (o *Op) onlyEnds() *Op {
	end := *o
	end.Retry = nil
	if o.OnError == Continues || o.OnError == Repairs {
		end.OnError = fails
	}
	return &end
}
