package runtime

import (
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
)

var (
	hooksMu sync.Mutex
	hooks   []engine.Hook
)

// OnEvent adds a hook that gets the events of all pipelines that are built afterwards. It is for init functions of custom
// builds of flowd. Programs that build plans themselves use [Options.Hooks].
func OnEvent(h engine.Hook) {
	hooksMu.Lock()
	defer hooksMu.Unlock()
	hooks = append(hooks, h)
}

// allHooks are the hooks of OnEvent and more.
func allHooks(more []engine.Hook) []engine.Hook {
	hooksMu.Lock()
	defer hooksMu.Unlock()
	return append(slices.Clone(hooks), more...)
}
