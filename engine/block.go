package engine

// frame is a block of steps that a message is in, one whose failures are dealt with
// as a whole: a `switch`, named steps or a group with `on_error` or `retry`. A
// message has frames only there.
type frame struct {
	of     *op // where the block begins
	kind   frameKind
	before Original // what came to the block
	trial  *trial   // of the block, when it is tried again
	outer  *frame   // around it; nil: none
}

type frameKind uint8

const (
	isWhole  frameKind = iota
	isPart             // of a split in the block: it leaves as it was split off, and the block is not tried again
	isSpent            // the rest of a split that broke off: its parts go on, so it can only end
	isMerged           // in the block: who ends it undoes the merge first, see tally.fail
)

// blockOf is the innermost block that m is in, or nil.
func blockOf(m *Message) *frame {
	if m.in.Rare == nil {
		return nil
	}
	f, _ := m.in.Rare.Block.(*frame)
	return f
}

func setBlock(m *Message, f *frame) {
	if m.in.Rare != nil || f != nil {
		m.in.SetRare(func(r *Rare) { r.Block = slot(f) })
	}
}

// inBlocks puts m, which steps have made inside of blocks, into them as what it is.
func (m *Message) inBlocks(kind frameKind) { setBlock(m, blockOf(m).as(kind, m)) }

// endAt lets the instructions from one on, whose end was not known, go on at the end.
func (p *program) endAt(from int) {
	for i := from; i < len(p.ops); i++ {
		if p.ops[i].next < 0 {
			p.ops[i].next = int32(len(p.ops))
		}
	}
}

// enter notes m as it comes to a block.
func (m *Message) enter(o *op) {
	f := &frame{of: o, before: Original{m.Bytes(), m.Meta}, outer: blockOf(m)}
	if tr := trialOf(m); tr != nil && tr.cause == o {
		f.trial = tr
		setTrial(m, nil)
	}
	setBlock(m, f)
}

// leave is told that m, with the parts of a merge, has come through a block.
func (m *Message) leave(o *op) {
	if f := blockOf(m); f != nil && f.of == o {
		setBlock(m, f.outer)
	}
	for i := range m.in.Of {
		m.in.Of[i].leave(o)
	}
}

// as are the frames, from f outwards, of what the block has made: m.
func (f *frame) as(kind frameKind, m *Message) *frame {
	if f == nil {
		return nil
	}
	return &frame{of: f.of, kind: kind, before: Original{m.Bytes(), m.Meta}, outer: f.outer.as(kind, m)}
}

// rescues says whether an on_error around a step takes what it fails.
func (f *frame) rescues() bool {
	for ; f != nil; f = f.outer {
		if f.of.onError != fails {
			return true
		}
	}
	return false
}

// rescue takes a message that has failed out of the block in which it is, as it came
// to it, and does what that block's on_error says, as far as the block is in the
// program that runs the message.
func (m *Message) rescue(in *program) {
	f := blockOf(m)
	if f == nil || f.of.in != in || f.kind == isMerged {
		return
	}
	m.SetBytes(f.before.body)
	m.Meta = f.before.meta
	setTrial(m, f.trial)
	setBlock(m, f.outer)
	o := f.of
	switch f.kind {
	case isPart:
		again := *o
		again.retry = nil
		o = &again
	case isSpent:
		o = o.onlyEnds()
	}
	o.failed(m, m.in.Err)
}

// onlyEnds is o for a message that can't go on.
func (o *op) onlyEnds() *op {
	end := *o
	end.retry = nil
	if o.onError == continues || o.onError == repairs {
		end.onError = fails
	}
	return &end
}
