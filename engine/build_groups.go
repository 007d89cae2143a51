package engine

import (
	"cmp"
	"time"
)

// group resolves a group.
func (b *builder) group(s *StepSpec, name string, skipped bool, c GroupConfig) *groupPlan {
	switch {
	case !b.lanes || b.batch || b.inner:
		b.report(s.Use.Place, "group-place", "a group can't stand here: its messages leave the lanes, and wait for others", "write it under the pipeline's own `processors`; those of batchers and outputs get whole batches anyway")
		return nil
	case len(b.plan.groups) == mostGroups:
		b.report(s.Use.Place, "group-place", "a pipeline has at most 100 groups", "use fewer, larger ones")
		return nil
	case s.Retry != nil:
		b.report(s.Retry.Place, "inner-retry", "a group itself can't be tried again: its steps are, each for the messages that failed there", "write `retry` on the steps inside")
	}
	g := &groupPlan{index: int8(len(b.plan.groups)), skipped: skipped, size: c.Size, bytes: int(c.Bytes), wait: cmp.Or(c.Timeout, time.Second)}
	g.outputPlan = outputPlan{name: name, typ: "group", concurrency: b.plan.workers, timeout: b.timeout(), breaker: Breaker{Failures: 1}, sequential: true, group: g}
	b.plan.groups = append(b.plan.groups, g)
	b.lanes = false
	g.steps = b.assembleBatch(c.Do)
	b.lanes = true
	return g
}

const mostGroups = 100
