package engine

import (
	"context"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Case is one case of [Switch].
type Case struct {
	When expr.Cond `yaml:"when" doc:"The case is taken when this holds; the last case may do without."`
	Do   Steps     `yaml:"do" check:"required" doc:"Steps of the case."`
}

// switchStep and useStep are plan, not plugin: building takes them apart.
type (
	switchStep struct {
		composite
		cases []Case
	}
	useStep struct {
		composite
		name string
		at   schema.Place
	}
)

// Switch makes the step that sends each message through the first case that holds.
func Switch(cases []Case) Processor { return &switchStep{cases: cases} }

// UseSteps makes the step that stands for a list under `resources.steps`.
func UseSteps(name string, at schema.Place) Processor { return &useStep{name: name, at: at} }

// composite is a step that only exists in a plan: a block of others.
type composite struct{}

func (composite) isBlock() {}

func (composite) Process(context.Context, *Batch) error {
	return Errorf(Permanent, "this step only runs inside a pipeline")
}
