package config

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkStdin refuses a second reader of standard input: the two would tear
// records apart between them.
func (l *loader) checkStdin() {
	var first *use
	for _, f := range l.files {
		for _, u := range uses(f.spec.Pipeline) {
			switch {
			case u.kind != engine.Inputs.Kind() || u.plugin != "stdin":
			case first == nil:
				first = &u
			default:
				l.report(u.complaint(schema.Problem{
					Code:    "shared-stdin",
					Message: fmt.Sprintf("standard input is already read by %s", first.place.Pos),
					Remedy:  "read it once, and pass messages on through batchers or a pipe",
				}))
			}
		}
	}
}
