package runtime

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/stage"
	"github.com/flowd-io/flowd/schema"
)

// orderly warns if a pipeline loses the order of a source or a sink.
func (b *builder) orderly(kind, name string, at schema.Place, orderBy string) {
	if !b.spec.Engine.OrderBy.IsZero() || orderBy == "" {
		return
	}
	b.problems = append(b.problems, schema.Problem{
		Pos: at.Pos, Path: at.Path, Code: "order-lost", Warning: true,
		Message: fmt.Sprintf("%s %s keeps an order, but a pipeline without `order_by` loses it", kind, name),
		Remedy:  fmt.Sprintf("write `engine: {order_by: '%s'}`, or `order_by: nil` if no order matters", orderBy),
	})
}

// hands is how many messages a pipeline works on at once; see engine.Env.
func (b *builder) hands() int {
	n := max(b.plan.Workers, b.plan.Workers*b.plan.Steps.Together)
	writes := 1
	for _, o := range b.spec.Outputs.All() {
		writes = max(writes, int(o.Concurrency))
	}
	for _, s := range b.spec.Batchers.All() {
		n += engine.TraitsOf(s.Use.Config).Size * (writes + 1)
	}
	for _, s := range b.spec.Processors {
		if g, ok := s.Use.Config.(engine.GroupConfig); ok {
			n += g.Size
		}
	}
	return min(n+writes, b.plan.MaxMessages)
}

// counted warns if an input reads ahead more messages than the delivery limit of its source allows.
func (b *builder) counted(s *engine.InputSpec, env engine.Env) {
	t := engine.TraitsOf(s.Use.Config)
	limit, most := t.DeliveryLimit, t.HandsBack
	if n := env.Hands * limit; limit == 0 || most*env.Instances <= n {
		return
	}
	b.problems = append(b.problems, schema.Problem{Pos: s.Place.Pos, Path: s.Place.Path, Code: "delivery-limit",
		Warning: true,
		Message: fmt.Sprintf(
			"the queue dead-letters messages that were delivered more than %d times, and counts up to %d messages that a stop hands back unread",
			limit, most),
		Remedy: fmt.Sprintf("leave `prefetch` out, or write `prefetch: %d` or less",
			max(1, env.Hands*limit/env.Instances))})
}

// intervals refuses waits that are longer than the sources of the pipeline can delay messages.
func (b *builder) intervals() {
	for _, in := range b.plan.Inputs {
		if in.Delays == 0 {
			continue
		}
		for _, r := range b.retries {
			for _, d := range r.Intervals {
				if d > in.Delays {
					b.report(r.Place, "long-interval",
						fmt.Sprintf("the source of input %s can't delay a message for %v, only for up to %v", in.Name, d, in.Delays),
						"shorten the interval, or send messages that would wait that long to a dead_letter")
				}
			}
		}
		return // one problem is enough
	}
}

// setTraits sets the traits of an input, which are the same for all of its instances.
func setTraits(p *stage.InputPlan, t engine.Traits) {
	p.Takes, p.Delays, p.Early, p.Follows = t.TakesBack, t.Delays, t.AcksEarly, t.Follows != ""
	p.Bounded = t.TakesBack == engine.TakesPosition && !t.Ahead
}

// stateful is a step of a pipeline that keeps state.
type stateful struct {
	engine.Keeping
	place schema.Place
	lane  bool // it is one of the pipeline's own steps, where messages of a key can go one by one
}

// keeps records that a step keeps state.
func (b *builder) keeps(at schema.Place, k engine.Keeping) {
	if k.Name != "" || k.Folds {
		b.states = append(b.states, stateful{k, at, b.lanes && !b.batch})
	}
}

// together says whether one of two steps reads what the other writes.
func (s *stateful) together(other *stateful) bool {
	return s != other && s.Name != "" && s.Name == other.Name && (s.Reads && other.Writes || s.Writes && other.Reads)
}

// apartness refuses steps that keep values under the same name and key, but do not share them.
func (b *builder) apartness() {
	for i := range b.states {
		for j := range i {
			s, earlier := &b.states[i], &b.states[j]
			if !s.Folds || !earlier.Folds || s.Name != "" && s.Name == earlier.Name || s.Key.String() != earlier.Key.String() {
				continue
			}
			at := slices.IndexFunc(s.Names, func(name string) bool { return slices.Contains(earlier.Names, name) })
			if at < 0 {
				continue
			}
			other := fmt.Sprintf("the step in line %d keeps %q by this key, too", earlier.place.Pos.Line, s.Names[at])
			if s.place.Pos == earlier.place.Pos {
				other = fmt.Sprintf("this step is used more than once and keeps %q each time", s.Names[at])
			}
			b.report(s.place, "state-apart", other+", and neither sees the values of the other",
				"let both name one `cache`, or give one of them another name")
			break
		}
	}
}

// serial finds out whether messages of a key must go through the pipeline's own steps one by one, so that each sees what
// earlier ones have written. It warns where that does not suffice.
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
		if s.Folds {
			b.folds(s)
			continue
		}
		switch {
		case !shared:
		case !b.plan.Ordered && !warned[s.Name]:
			warned[s.Name] = true
			b.unordered(s.place,
				fmt.Sprintf(
					"steps read and write cache %s, and nothing orders messages with equal keys: one may read before an earlier one has written", s.Name),
				fmt.Sprintf("write `engine: {order_by: '%s'}` if that matters", s.Key.String()))
		case b.plan.Ordered && !s.lane:
			b.unordered(s.place,
				fmt.Sprintf("several messages go through each step together here: one may read cache %s before an earlier one has written", s.Name),
				"write the steps that read and write it under the pipeline's own `processors`, outside a `group`, if that matters")
		case order != nil && order.String() != s.Key.String():
			b.unordered(s.Key.Place(),
				fmt.Sprintf("messages with equal keys here may differ in `order_by` (%s): one may read cache %s before an earlier one has written",
					order.String(), s.Name),
				"use the same expression for both if that matters")
		}
	}
}

// folds warns if messages of a key may reach a step out of order, although the step continues with each message what the
// message before it has left.
func (b *builder) folds(s *stateful) {
	order := b.plan.OrderBy
	b.plan.Serial = b.plan.Serial || b.plan.Ordered && s.lane
	p := schema.Problem{Code: "state-order", Warning: true}
	at := s.Key.Place()
	switch {
	case order == nil:
		p.Message = "nothing orders messages with equal keys: each continues with the state of whichever message came before it"
		p.Remedy = fmt.Sprintf("write `engine: {order_by: '%s'}`", s.Key.String())
	case order.String() != s.Key.String():
		p.Message = fmt.Sprintf(
			"messages with equal keys here may differ in `order_by` (%s): each continues with the state of whichever message came before it",
			order.String())
		p.Remedy = "use the same expression for both"
	default:
		return
	}
	p.Pos, p.Path = at.Pos, at.Path
	b.problems = append(b.problems, p)
}

func (b *builder) unordered(at schema.Place, message, remedy string) {
	b.problems = append(b.problems, schema.Problem{Pos: at.Pos, Path: at.Path, Code: "cache-order", Warning: true,
		Message: message, Remedy: remedy})
}

// sideBySide says whether several messages of a key may be in the present step at once: it only edits them, and counts
// nothing.
func (b *builder) sideBySide(yes bool) { b.apart = b.apart || b.lanes && !yes }
