package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
)

// emitEvent calls the hooks of the pipeline.
func (p *Layout) EmitEvent(e engine.Event) {
	if len(p.Hooks) == 0 {
		return
	}
	e.Pipeline, e.At = p.Name, time.Now()
	for _, h := range p.Hooks {
		callHook(h, e)
	}
}

func callHook(h engine.Hook, e engine.Event) {
	var err error
	defer engine.Recovered(&err) // a hook's panic is its own affair
	h(e)
}
