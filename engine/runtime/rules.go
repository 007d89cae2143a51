package runtime

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/rules"
	"github.com/flowd-io/flowd/schema"
)

// Component is a plugin found somewhere in what is configured: the steps of a `switch`,
// the inputs of a `sequence`.
type Component = rules.Component

// Components finds every component in v, those in the configurations of others included.
func Components(v any) []Component { return rules.Components(v) }

// Judge reports what is wrong with a pipeline in itself, whatever its inputs are and its
// resources hold: a test replaces those. [Build] reports that as well, and what is wrong
// with the rest.
func Judge(p *engine.Pipeline) []schema.Problem { return rules.Judge(p) }
