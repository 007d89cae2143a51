package engine

// rescue lets a message go on that has failed in a block, but not where the block's
// own steps run: in a group inside, or as a part of a merge that is undone.
func (t *tally) rescue(m *Message, out *outRun) bool {
	if blockOf(m) == nil || t.r.handing() {
		return false
	}
	var in *program
	for m.in.State == failed && blockOf(m) != nil && blockOf(m).kind != isMerged {
		in = blockOf(m).of.in
		m.rescue(in)
	}
	switch m.in.State {
	case live:
		if out != nil && out.plan.group != nil && in != out.plan.steps { // it goes through the group, behind its steps
			m.in.Back, m.in.PC = m.in.PC, int32(len(out.plan.steps.ops))
		}
		t.own(m, out)
		if out != nil {
			t.goWith(again{out}, m, m.in.Stage)
			return true
		}
		if t.past {
			t.beyond -= m.weight()
		}
		m.in.Batch = nil
		t.put(toLanes{t.r}, m)
	case waits:
		t.await(m, out)
	case discarded:
		t.end(m, Dropped)
	default:
		return false
	}
	return true
}

// again is an output, or a group, to which messages come back.
type again struct{ out *outRun }

func (a again) push(b *Batch) {
	a.out.come(len(b.in.Msgs))
	a.out.pushAgain(b)
}
