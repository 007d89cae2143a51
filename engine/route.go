package engine

import (
	"context"

	"github.com/flowd-io/flowd/engine/expr"
)

// Route is an output that consists of others, its [Traits].Members. It is plan, not plugin: it only
// says where messages go. One of its fields says how it chooses.
type Route struct {
	Fallback   bool       // the next one takes what one has failed for good
	RoundRobin bool       // in turn
	Key        *expr.Expr // equal keys go to the same member
}

// Write is never called inside a pipeline.
func (Route) Write(context.Context, *Batch) error {
	return Errorf(Permanent, "this output only works inside a pipeline")
}
