package stage

import (
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/ledger"
)

// holding is what an acker may ask of a run; see [engine.Holding].
type holding struct {
	r    *Run
	acks *ledger.AckLoop
}

// Hurry has batches and groups leave as soon as something is in them.
func (h *holding) Hurry() (calm func()) {
	r := h.r
	r.hurried.Add(1)
	for _, g := range r.groups {
		g.flush(engine.ByRevoke)
	}
	for _, b := range r.batchers {
		b.poke()
	}
	return sync.OnceFunc(func() { r.hurried.Add(-1) })
}

// Take takes messages away from the run.
func (h *holding) Take(gone func(ref uint64) bool) int { return h.r.Take(h.acks, gone) }

// Waits counts an input that waits for positions.
func (h *holding) Waits(yes bool) {
	if !yes {
		h.r.replaying.Add(-1)
		return
	}
	h.r.replaying.Add(1)
	h.r.relieve()
}

// hurry is why batchers must send what they hold at once, or "".
func (r *Run) hurry() engine.Trigger {
	if why := r.ends(); why != "" || r.hurried.Load() == 0 {
		return why
	}
	return engine.ByRevoke
}
