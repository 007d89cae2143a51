package runtime

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// endBlock appends the end of the block that began at an instruction: everything that
// continues inside reaches it.
func (b *builder) endBlock(p *steps.Program, at int, s *engine.StepSpec, hasGroup bool) {
	p.EndAt(at)
	p.Ops = append(p.Ops, steps.Op{Next: -1, Leaves: true, Block: int32(at)})
	if s.Retry != nil && p.Ops[at].Group == 0 && hasGroup {
		b.report(s.Retry.Place, "inner-retry", "steps with a group among them can't be retried as a whole: the group's messages have left", "write `retry` on the steps inside")
	}
}
