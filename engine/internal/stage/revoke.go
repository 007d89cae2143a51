package stage

import (
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/ledger"
)

// holding is what an acker may ask of a run; see [engine.Holding].
type holding struct {
	*balance
	acks *ledger.AckLoop
}

// Hurry has batches and groups leave as soon as something is in them.
func (h *holding) Hurry() (calm func()) {
	h.intake.hurried.Add(1)
	for _, g := range h.batching.groups {
		g.flush(engine.ByRevoke)
	}
	for _, b := range h.batching.batchers {
		b.poke()
	}
	return sync.OnceFunc(func() { h.intake.hurried.Add(-1) })
}

// Take takes messages away from the run.
func (h *holding) Take(gone func(ref uint64) bool) int { return h.Account.Take(h.acks, gone) }

// Waits counts an input that waits for positions.
func (h *holding) Waits(yes bool) {
	if !yes {
		h.intake.replaying.Add(-1)
		return
	}
	h.intake.replaying.Add(1)
	h.relieve()
}

// hurry is why batchers must send what they hold at once, or "".
func (x *balance) hurry() engine.Trigger {
	if why := x.ends(); why != "" || x.intake.hurried.Load() == 0 {
		return why
	}
	return engine.ByRevoke
}
