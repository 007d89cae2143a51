package rules

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkLines warns of batches that become a multi-line text, for an output that refuses those.
func (r *checker) checkLines() {
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
				Message: fmt.Sprintf("batcher %s makes multi-line texts, and output %s refuses them: "+
					"it writes one line per message", name, output),
				Remedy: fmt.Sprintf("write `framing: whole` in output %s", output)})
		}
	}
}
