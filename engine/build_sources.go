package engine

import (
	"fmt"

	"github.com/flowd-io/flowd/schema"
)

// orderly warns of an order that is lost on the way.
func (b *builder) orderly(kind, name string, at schema.Place, orderBy string) {
	if b.plan.ordered || orderBy == "" {
		return
	}
	b.problems = append(b.problems, schema.Problem{
		Pos: at.Pos, Path: at.Path, Code: "order-lost", Warning: true,
		Message: fmt.Sprintf("%s %s keeps an order, which is lost in a pipeline without `order_by`", kind, name),
		Remedy:  fmt.Sprintf("write `engine: {order_by: '%s'}`", orderBy),
	})
}

// hands is how many messages a pipeline has in hand at once.
func (b *builder) hands() int {
	n := max(b.plan.workers, b.plan.workers*b.plan.steps.together)
	writes := 1
	for _, o := range b.spec.Outputs.All() {
		writes = max(writes, int(o.Concurrency))
	}
	for _, s := range b.spec.Batchers.All() {
		n += TraitsOf(s.Use.Config).Size * (writes + 1)
	}
	for _, s := range b.spec.Processors {
		if g, ok := s.Use.Config.(GroupConfig); ok {
			n += g.Size
		}
	}
	return min(n+writes, b.plan.maxMessages)
}

// counted warns of more messages read ahead than a limit of deliveries allows.
func (b *builder) counted(s *InputSpec, env Env) {
	t := TraitsOf(s.Use.Config)
	limit, most := t.DeliveryLimit, t.HandsBack
	if n := env.Hands * limit; limit == 0 || most*env.Instances <= n {
		return
	}
	b.problems = append(b.problems, schema.Problem{Pos: s.Place.Pos, Path: s.Place.Path, Code: "delivery-limit", Warning: true,
		Message: fmt.Sprintf("the queue dead-letters what was delivered more than %d times, and counts up to %d messages that a stop hands back unread", limit, most),
		Remedy:  fmt.Sprintf("leave `prefetch` out, or write `prefetch: %d` or less", max(1, env.Hands*limit/env.Instances))})
}

// intervals refuses waits that no source of this pipeline that delays messages
// itself could keep.
func (b *builder) intervals() {
	for _, in := range b.plan.inputs {
		if in.delays == 0 {
			continue
		}
		for _, r := range b.retries {
			for _, d := range r.Intervals {
				if d > in.delays {
					b.report(r.Place, "long-interval", fmt.Sprintf("input %s can't hold a message for %v: its longest is %v", in.name, d, in.delays), "shorten the interval, or send what waits that long to a dead_letter")
				}
			}
		}
		return // one says it for all
	}
}

// learn notes what a source can do. All instances of an input can do the same.
func (p *inputPlan) learn(t Traits) {
	p.takes, p.delays, p.early, p.follows = t.TakesBack, t.Delays, t.AcksEarly, t.Follows != ""
	p.then = map[TakesBack]then{TakesNothing: thenDrop, TakesOne: thenReturn, TakesPosition: thenStop}[p.takes]
}
