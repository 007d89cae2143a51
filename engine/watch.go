package engine

import (
	"context"
	"slices"
	"time"
)

// watch looks for calls that are past their deadlines, until ctx ends.
func (r *run) watch(ctx context.Context) {
	tick := time.NewTicker(r.plan.watchEvery())
	defer tick.Stop()
	quietAt := int64(-1) // messages received when it was quiet last
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, o := range r.outputs {
				o.mu.Lock()
				writers := slices.Clone(o.writers)
				o.mu.Unlock()
				for _, w := range writers {
					o.abandon(w, now)
				}
			}
			r.credits.stalls()
			quietAt = r.observe(quietAt)
		}
	}
}

// observe tells hooks how busy the run is.
func (r *run) observe(quietAt int64) int64 {
	if len(r.plan.hooks) == 0 {
		return quietAt
	}
	r.plan.emitEvent(Event{Kind: EventUtilization, N: r.lanes.busy()})
	if n := r.roots.received.Load(); n != quietAt && r.roots.inFlight.Load() == 0 {
		r.plan.emitEvent(Event{Kind: EventQuiet, N: int(n)})
		return n
	}
	return quietAt
}
