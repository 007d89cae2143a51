package engine

import (
	"context"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Fallback makes the output that sends to its members one after the other: to the
// next what one has failed for good.
func Fallback() Output { return &compositeOutput{kind: fallback} }

// RoundRobin makes the output that sends to its members in turn.
func RoundRobin() Output { return &compositeOutput{kind: roundRobin} }

// Partition makes the output that sends equal keys to the same member.
func Partition(key expr.Expr) Output { return &compositeOutput{kind: partition, key: &key} }

type routeKind uint8

const (
	fallback routeKind = iota
	roundRobin
	partition
)

// compositeOutput is plan, not plugin: it only says where messages go.
type compositeOutput struct {
	kind routeKind
	key  *expr.Expr
}

// Write is never called inside a pipeline.
func (*compositeOutput) Write(context.Context, *Batch) error {
	return Errorf(Permanent, "this output only works inside a pipeline")
}

// MembersOf names the outputs that others of a section consist of.
func MembersOf(outputs schema.Map[OutputSpec]) map[string]bool {
	members := map[string]bool{}
	for _, o := range outputs.All() {
		for _, name := range TraitsOf(o.Use.Config).Members {
			members[name] = true
		}
	}
	return members
}
