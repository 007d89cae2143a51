package engine

import (
	"context"

	"github.com/flowd-io/flowd/engine/expr"
)

// Route is an output that consists of others, its [Traits].Members. It is plan, not plugin: it only
// says where messages go.
type Route struct {
	Kind RouteKind
	Key  *expr.Expr // of Partition
}

// RouteKind is how a [Route] chooses among its members.
type RouteKind uint8

// The kinds of routes.
const (
	Fallback   RouteKind = iota // the next one takes what one has failed for good
	RoundRobin                  // in turn
	Partition                   // equal keys go to the same member
)

// Write is never called inside a pipeline.
func (Route) Write(context.Context, *Batch) error {
	return Errorf(Permanent, "this output only works inside a pipeline")
}
