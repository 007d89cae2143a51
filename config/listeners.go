package config

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkListeners warns of inputs to which anybody on the network may send messages.
func (l *loader) checkListeners() {
	exposed := func(t engine.Traits) bool { return t.Exposed }
	l.warnWhere(exposed, "listen", schema.Problem{Code: "open-listener",
		Message: "it listens beyond this machine and takes messages of anybody",
		Remedy:  "set auth, or listen on 127.0.0.1"})
}
