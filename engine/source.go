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

func init() {
	schema.AddCode("order-lost", "A source or sink keeps an order that the pipeline does not.")
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
