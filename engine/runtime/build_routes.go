package runtime

import (
	"github.com/flowd-io/flowd/engine"
)

// routes resolves the members of composites, when all outputs are known.
func (b *builder) routes() {
	for i, e := range b.spec.Outputs.Entries() {
		o, at := b.plan.Outputs[i], e.Value.Use.Place
		if o.Route == nil {
			continue
		}
		for _, name := range engine.TraitsOf(e.Value.Use.Config).Members {
			if member := b.plan.Output(name); member != nil {
				o.Route.Members = append(o.Route.Members, member)
			}
		}
		if len(engine.TraitsOf(e.Value.Use.Config).Members) == 0 {
			b.report(at, "no-output", "no output is named here", "name at least one of `outputs`")
		}
	}
	for _, o := range b.plan.Outputs {
		if o.Route != nil && o.LeadsTo(o, nil) {
			o.Route.Members = nil // it is reported
		}
	}
}
