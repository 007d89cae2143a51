package engine

import (
	"fmt"

	"github.com/flowd-io/flowd/schema"
)

// Orderly is an optional ability of an Input whose source, or an Output whose sink,
// keeps an order: OrderBy is what to write as `order_by` so that it is kept in
// between, "" where this one keeps none. Lint warns where a pipeline has no order.
type Orderly interface{ OrderBy() string }

// Sized is an optional ability of a Batcher's configuration: Wants is how many messages
// a batch is to have; 0 is any number.
type Sized interface{ Wants() int }

// Bounded is an optional ability of an Input's configuration: Unsettled is how many
// messages its source gives before the first of them are settled. Without it, or with
// math.MaxInt, there is no such bound.
type Bounded interface{ Unsettled() int }

// Counted is an optional ability of an Input's configuration whose source counts how
// often it gives out a message, also what comes back unread, up to a limit (0: none);
// most is how many a stop may hand back, 0 where the input sees to that itself.
type Counted interface{ HandsBack() (limit, most int) }

// Exposed is an optional ability of an Input's configuration: true says that anybody on
// the network may send it messages, without showing who they are.
type Exposed interface{ Exposed() bool }

func init() {
	schema.AddCode("order-lost", "A source or sink keeps an order that the pipeline does not.")
	schema.AddCode("delivery-limit", "More is read ahead than a source with a limit of deliveries can take back.")
	schema.AddCode("long-interval", "An interval between two tries is longer than the source can wait.")
}

// orderly warns of an order that is lost on the way.
func (b *builder) orderly(kind, name string, at schema.Place, plugin any) {
	o, ok := plugin.(Orderly)
	if !ok || b.plan.ordered || o.OrderBy() == "" {
		return
	}
	b.problems = append(b.problems, schema.Problem{
		Pos: at.Pos, Path: at.Path, Code: "order-lost", Warning: true,
		Message: fmt.Sprintf("%s %s keeps an order, which is lost in a pipeline without `order_by`", kind, name),
		Remedy:  fmt.Sprintf("write `engine: {order_by: '%s'}`", o.OrderBy()),
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
		if c, ok := s.Use.Config.(Sized); ok {
			n += c.Wants() * (writes + 1)
		}
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
	c, ok := s.Use.Config.(Counted)
	if !ok {
		return
	}
	limit, most := c.HandsBack()
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
func (p *inputPlan) learn(in Input) {
	p.takes = takes(in)
	p.then = map[TakesBack]then{TakesNothing: thenDrop, TakesOne: thenReturn, TakesPosition: thenStop}[p.takes]
	if d, ok := in.(Delayer); ok {
		p.delays = d.Delays()
	}
	if a, ok := in.(EarlyAcker); ok {
		p.early = a.AcksEarly()
	}
	if f, ok := in.(Follower); ok {
		p.follows = f.Follows() != ""
	}
}

func takes(in Input) TakesBack {
	if r, ok := in.(Returner); ok {
		return r.TakesBack()
	}
	return TakesNothing
}
