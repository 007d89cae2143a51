package stage

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// watch looks for calls that are past their deadlines, until ctx ends.
func (r *Run) watch(ctx context.Context) {
	tick := time.NewTicker(r.plan.watchEvery())
	defer tick.Stop()
	quietAt := int64(-1) // messages received when it was quiet last
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, o := range r.sinks {
				for _, w := range o.hired() {
					o.abandon(w.writer, now)
				}
			}
			r.credits.Stalls()
			quietAt = r.observe(quietAt)
		}
	}
}

// observe reports to hooks how busy the run is.
func (r *Run) observe(quietAt int64) int64 {
	if len(r.plan.Hooks) == 0 {
		return quietAt
	}
	r.plan.EmitEvent(engine.Event{Kind: engine.EventUtilization, N: r.laneQueue.Busy()})
	if n := r.Roots.Received.Load(); n != quietAt && r.Roots.InFlight.Load() == 0 {
		r.plan.EmitEvent(engine.Event{Kind: engine.EventQuiet, N: int(n)})
		return n
	}
	return quietAt
}
