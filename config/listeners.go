package config

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkListeners warns of inputs to which anybody on the network may send messages.
func (l *loader) checkListeners() {
	exposed := func(config any) bool {
		c, ok := config.(engine.Exposed)
		return ok && c.Exposed()
	}
	l.warnWhere(exposed, "listen", schema.Problem{Code: "open-listener",
		Message: "it listens beyond this machine and accepts messages from anyone",
		Remedy:  "set auth, or listen on 127.0.0.1"})
}
