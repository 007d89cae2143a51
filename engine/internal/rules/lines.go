package rules

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// lines warns of batches that become a text of many lines for an output that refuses it.
func (r *rules) lines() {
	for name, b := range r.spec.Batchers.All() {
		if len(b.Processors) == 0 {
			continue
		}
		last := &b.Processors[len(b.Processors)-1]
		if !engine.TraitsOf(last.Use.Config).ManyLines {
			continue
		}
		for _, output := range b.Output {
			o, ok := r.spec.Outputs.Get(output)
			if !ok || len(o.Processors) > 0 || !engine.TraitsOf(o.Use.Config).OneLine {
				continue
			}
			r.complain(last.Use.Place, schema.Problem{Code: "archive-lines", Warning: true,
				Message: fmt.Sprintf("batcher %s makes texts of many lines, and output %s refuses them: "+
					"it writes one line for each message", name, output),
				Remedy: fmt.Sprintf("write `framing: whole` in output %s", output)})
		}
	}
}
