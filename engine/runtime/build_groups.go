package runtime

import (
	"cmp"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// group resolves a group.
func (b *builder) group(s *engine.StepSpec, name string, skipped bool, c engine.GroupConfig) *stage.GroupPlan {
	switch {
	case !b.lanes || b.batch || b.inner:
		b.report(s.Use.Place, "group-place", "a group is not allowed here: its messages leave the lanes, and wait for others", "write it under the pipeline's own `processors`; steps of batchers and outputs get whole batches anyway")
		return nil
	case len(b.plan.Groups) == mostGroups:
		b.report(s.Use.Place, "group-place", "a pipeline has at most 100 groups", "use fewer, larger ones")
		return nil
	case s.Retry != nil:
		b.report(s.Retry.Place, "inner-retry", "a group itself can't be retried: its steps are, each for the messages that failed there", "write `retry` on the steps inside")
	}
	g := &stage.GroupPlan{Name: name, Index: int8(len(b.plan.Groups)), Skipped: skipped, Size: c.Size, Bytes: int(c.Bytes), Wait: cmp.Or(c.Timeout, time.Second)}
	b.plan.Groups = append(b.plan.Groups, g)
	b.lanes = false
	g.Steps = b.assembleBatch(c.Do)
	b.lanes = true
	return g
}

const mostGroups = 100
