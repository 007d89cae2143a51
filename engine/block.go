package engine

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Case is one case of a [Block].
type Case struct {
	When expr.Cond `yaml:"when" doc:"The case is taken if this is true; the last case needs no condition."`
	Do   Steps     `yaml:"do" check:"required" doc:"Steps of the case."`
}

// Block is a step that consists of others. It is plan, not plugin: building takes it apart. One of its
// fields says what it is.
type Block struct {
	Cases []Case       // each message goes through the first case that holds
	Do    Steps        // each message goes through these
	Group *GroupConfig // messages leave the lanes and wait for each other, until the steps run once over all of them
}

// Process is never called inside a pipeline.
func (Block) Process(context.Context, *Batch) error {
	return Errorf(Permanent, "this step only runs inside a pipeline")
}

// GroupConfig configures a group; see [Block].
type GroupConfig struct {
	Size    int           `yaml:"size" check:"min=1" doc:"Messages in a group. Without size and bytes, timeout alone closes it."`
	Bytes   schema.Size   `yaml:"bytes" check:"min=1" doc:"Bytes of payload in a group: it closes before a message that would exceed them, and a larger message goes alone."`
	Timeout time.Duration `yaml:"timeout" check:"min=1ms" doc:"Time since a group's first message after which the steps run over the messages so far; 1s by default."`
	AtOnce  bool          `yaml:"at_once" doc:"Do not wait for more messages: run the steps as soon as a worker is free, over the messages that have arrived by then. So groups are small while there is little to do, and grow to size under load."`
	Do      Steps         `yaml:"do" check:"required,nonempty" scope:"batch" doc:"Steps that run over the whole group; those for batches work here."`
}

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
