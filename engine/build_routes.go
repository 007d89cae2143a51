package engine

import "fmt"

// routes resolves the members of composites, when all outputs are known.
func (b *builder) routes() {
	for i, e := range b.spec.Outputs.Entries() {
		o, at := b.plan.outputs[i], e.Value.Use.Place
		if o.route == nil {
			continue
		}
		for _, name := range TraitsOf(e.Value.Use.Config).Members {
			member := b.plan.output(name)
			if member == nil {
				b.report(at, "unknown-output", fmt.Sprintf("there is no output %q", name), "")
				continue
			}
			o.route.members = append(o.route.members, member)
		}
		if len(o.route.members) == 0 {
			b.report(at, "no-output", "no output is named here", "name at least one of `outputs`")
		}
	}
	for i, e := range b.spec.Outputs.Entries() {
		if o := b.plan.outputs[i]; o.route != nil && o.leadsTo(o, nil) {
			b.report(e.Value.Use.Place, "output-cycle", fmt.Sprintf("output %s leads back to itself", o.name), "break the circle: an output may not consist of itself")
			o.route.members = nil
		}
	}
}
