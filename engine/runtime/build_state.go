package runtime

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// stateful is a step of a pipeline that keeps state.
type stateful struct {
	engine.Keeping
	place schema.Place
	lane  bool // it is one of the pipeline's own steps: messages of a key reach it one after the other
}

// keeps takes down that a step keeps state.
func (b *builder) keeps(at schema.Place, k engine.Keeping) {
	if k.Name != "" {
		b.states = append(b.states, stateful{k, at, b.lanes && !b.batch})
	}
}

// together says whether what one of two steps writes the other reads.
func (s *stateful) together(other *stateful) bool {
	return s != other && s.Name == other.Name && (s.Reads && other.Writes || s.Writes && other.Reads)
}

// serial finds out whether messages of a key must go through the pipeline's own steps
// one by one, so that each sees what those before it have written, and warns where that
// is not enough.
func (b *builder) serial() {
	order, warned := b.plan.OrderBy, map[string]bool{}
	for i := range b.states {
		s := &b.states[i]
		shared := false
		for j := range b.states {
			if other := &b.states[j]; s.together(other) {
				shared = true
				b.plan.Serial = b.plan.Serial || b.plan.Ordered && s.lane && other.lane
			}
		}
		switch {
		case !shared:
		case !b.plan.Ordered && !warned[s.Name]:
			warned[s.Name] = true
			b.unordered(s.place, fmt.Sprintf("steps read and write cache %s, and nothing orders messages with equal keys: one may read before an earlier one has written", s.Name),
				fmt.Sprintf("write `engine: {order_by: '%s'}` if that matters", s.Key.String()))
		case b.plan.Ordered && !s.lane:
			b.unordered(s.place, fmt.Sprintf("several messages go through each step together here: one may read cache %s before an earlier one has written", s.Name),
				"write the steps that read and write it under the pipeline's own `processors`, outside a `group`, if that matters")
		case order != nil && order.String() != s.Key.String():
			b.unordered(s.Key.Place(), fmt.Sprintf("messages with equal keys here may differ in `order_by` (%s): one may read cache %s before an earlier one has written", order.String(), s.Name),
				"use the same expression for both if that matters")
		}
	}
}

func (b *builder) unordered(at schema.Place, message, remedy string) {
	b.problems = append(b.problems, schema.Problem{Pos: at.Pos, Path: at.Path, Code: "cache-order", Warning: true, Message: message, Remedy: remedy})
}
