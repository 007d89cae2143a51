package runtime

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/rules"
	"github.com/flowd-io/flowd/schema"
)

// Component is a plugin that a configuration uses, at any depth: a step of a `switch`, an input of a `sequence`.
type Component = rules.Component

// Components finds every component in v, including those inside the configurations of others.
func Components(v any) []Component { return rules.Components(v) }

// Judge reports what is wrong with a pipeline apart from its inputs and resources, which a test of the pipeline
// replaces. [Build] reports the same, and what is wrong with those.
func Judge(p *engine.Pipeline) []schema.Problem { return rules.Judge(p) }
