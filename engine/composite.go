package engine

import (
	"context"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Case is one case of a [Block].
type Case struct {
	When expr.Cond `yaml:"when" doc:"The case is taken when this is true; the last case needs none."`
	Do   Steps     `yaml:"do" check:"required" doc:"Steps of the case."`
}

// Block is a step that consists of others. It is plan, not plugin: building takes it apart. One of its
// fields says what it is.
type Block struct {
	Cases []Case       // each message goes through the first case that holds
	Use   string       // a list under `resources.steps`
	Group *GroupConfig // messages leave the lanes and wait for each other, until the steps run once over all of them

	Place schema.Place // of Use
}

// Process is never called inside a pipeline.
func (Block) Process(context.Context, *Batch) error {
	return Errorf(Permanent, "this step only runs inside a pipeline")
}
