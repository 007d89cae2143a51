package engine

import "time"

// emitEvent calls the hooks of the pipeline.
func (p *layout) emitEvent(e Event) {
	if len(p.hooks) == 0 {
		return
	}
	e.Pipeline, e.At = p.Name, time.Now()
	for _, h := range p.hooks {
		callHook(h, e)
	}
}

func callHook(h Hook, e Event) {
	var err error
	defer recovered(&err) // a hook's panic is its own affair
	h(e)
}
