package steps

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// frame says that a message is inside a block whose failures are handled as a whole: a `switch`, named steps or a group
// with `on_error` or `retry`.
type frame struct {
	Of     *Op // where the block begins
	Kind   frameKind
	before *Original    // the message as it entered the block
	trial  *retry.Trial // of the block, if it is tried again
	outer  *frame       // of the block around it; nil: none
}

type frameKind uint8

const (
	isWhole  frameKind = iota // the message entered the block
	isPart                    // a part of a split in the block: it leaves as it was split off, and the block is not tried again
	isSpent                   // the rest of a split that broke off: its parts continue, so it can only end
	IsMerged                  // a merge made in the block: package stage undoes the merge before it ends
)

// BlockOf is the frame of the innermost block around m, or nil.
func BlockOf(m *engine.Message) *frame {
	if msg(m).Rare == nil {
		return nil
	}
	f, _ := msg(m).Rare.Block.(*frame)
	return f
}

// SetBlock sets the frame of m; nil means that m is in no block.
func SetBlock(m *engine.Message, f *frame) {
	switch {
	case f != nil:
		msg(m).SetBlock(f)
	case msg(m).Rare != nil:
		msg(m).SetBlock(nil)
	}
}

// IsBlock marks a frame as the value that a message keeps.
func (*frame) IsBlock(inside.Key) {}

// inBlocks gives m, which a step has made of another message, frames of a kind for the blocks around it.
func inBlocks(m *engine.Message, kind frameKind) { SetBlock(m, BlockOf(m).as(kind, m)) }

// EndAt completes the instructions from an index on: those without a next instruction continue behind the last one.
func (p *Program) EndAt(from int) {
	for i := from; i < len(p.Ops); i++ {
		if p.Ops[i].Next < 0 {
			p.Ops[i].Next = int32(len(p.Ops))
		}
	}
}

// Enter gives m, which enters a block, a frame.
func Enter(m *engine.Message, o *Op) {
	f := &frame{Of: o, before: OriginalOf(m), outer: BlockOf(m)}
	if tr := retry.TrialOf(m); tr != nil && tr.Cause == o {
		f.trial = tr
		retry.SetTrial(m, nil)
	}
	SetBlock(m, f)
}

// leaveBlock removes the frame of m, and of the parts of a merge, at the end of a block.
func leaveBlock(m *engine.Message, o *Op) {
	if f := BlockOf(m); f != nil && f.Of == o {
		SetBlock(m, f.outer)
	}
	for i := range msg(m).Of {
		leaveBlock(&msg(m).Of[i], o)
	}
}

// as returns frames like f and those around it for m, a new message.
func (f *frame) as(kind frameKind, m *engine.Message) *frame {
	if f == nil {
		return nil
	}
	return &frame{Of: f.Of, Kind: kind, before: OriginalOf(m), outer: f.outer.as(kind, m)}
}

// hasOnError says whether f or a block around it has an on_error.
func (f *frame) hasOnError() bool {
	for ; f != nil; f = f.outer {
		if f.Of.OnError != fails {
			return true
		}
	}
	return false
}

// Rescue takes a message that has failed out of its innermost block, restores it as it entered the block, and does what
// the retry and on_error of the block say. It does nothing if the block is in another program than in.
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

// onlyEnds is a copy of o without the ways in which a failed message can continue.
func (o *Op) onlyEnds() *Op {
	end := *o
	end.Retry = nil
	if o.OnError == Continues || o.OnError == Repairs {
		end.OnError = fails
	}
	return &end
}
