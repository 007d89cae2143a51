package config

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkStdin refuses a second reader of standard input: the two would tear
// records apart between them.
func (l *loader) checkStdin() {
	var first *engine.Component
	for _, f := range l.files {
		for _, u := range engine.Components(f.spec.Pipeline) {
			switch {
			case u.Kind != engine.Inputs.Kind() || u.Type != "stdin":
			case first == nil:
				first = &u
			default:
				l.complain(u.Place, schema.Problem{
					Code:    "shared-stdin",
					Message: fmt.Sprintf("standard input is read by %s already", first.Place.Pos),
					Remedy:  "read it once, and pass messages on through batchers or a pipe",
				})
			}
		}
	}
}
