package runtime

import (
	"fmt"

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
			member := b.plan.Output(name)
			if member == nil {
				b.report(at, "unknown-output", fmt.Sprintf("there is no output %q", name), "")
				continue
			}
			o.Route.Members = append(o.Route.Members, member)
		}
		if len(o.Route.Members) == 0 {
			b.report(at, "no-output", "no output is named here", "name at least one of `outputs`")
		}
	}
	for i, e := range b.spec.Outputs.Entries() {
		if o := b.plan.Outputs[i]; o.Route != nil && o.LeadsTo(o, nil) {
			b.report(e.Value.Use.Place, "output-cycle", fmt.Sprintf("output %s leads back to itself", o.Name), "break the circle: an output may not consist of itself")
			o.Route.Members = nil
		}
	}
}
