package config

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkListeners warns of inputs to which anybody on the network may send messages.
func (l *loader) checkListeners() {
	for _, f := range l.files {
		for _, u := range uses(f.spec.Pipeline) {
			if c, ok := u.config.(engine.Exposed); !ok || !c.Exposed() {
				continue
			}
			if n := find(u.place.Node, "listen"); n != nil {
				u.place = schema.Place{Pos: n.Pos, Path: join(u.place.Path, "listen"), Node: n}
			}
			l.report(u.complaint(schema.Problem{Code: "open-listener", Warning: true,
				Message: "it listens beyond this machine and takes messages of anybody",
				Remedy:  "set auth, or listen on 127.0.0.1"}))
		}
	}
}
