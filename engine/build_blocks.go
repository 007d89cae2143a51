package engine

// endBlock appends the end of the block that began at an instruction: all that goes on
// inside comes to it.
func (b *builder) endBlock(p *program, at int, s *StepSpec, hasGroup bool) {
	p.endAt(at)
	p.ops = append(p.ops, op{next: -1, leaves: true, block: int32(at)})
	if s.Retry != nil && p.ops[at].group == 0 && hasGroup {
		b.report(s.Retry.Place, "inner-retry", "steps can't be tried again as a whole where a group is among them: its messages have left", "write `retry` on the steps inside")
	}
}
