package stage

import (
	"context"

	"github.com/flowd-io/flowd/engine/internal/flow"
)

// keepPace waits until lanes and outputs have caught up, or ctx ends.
func (rd *reader) keepPace(ctx context.Context) {
	r := rd.r
	if !r.crowded(1) {
		return
	}
	rd.waits(true)
	defer rd.waits(false)
	r.pace.Wait(ctx, r.ease)
}

// ease lets readers go on when half of what they were ahead is done. It is called
// whenever that may have become true.
func (r *Run) ease() { r.pace.Ease(r.crowded) }

// crowded says that every lane has so much before it, or every output that works,
// for each of its writes.
func (r *Run) crowded(part int) bool {
	if r.Lanes.Crowded(max(flow.Ahead/r.Lanes.Lanes, 2*flow.SlowRun, 2*r.plan.Steps.Together)/part, flow.AheadBytes/part) {
		return true
	}
	all := false
	for _, o := range r.sinks {
		if o.plan.Feeds {
			if !o.crowded(flow.Ahead/part, flow.AheadBytes/part) {
				return false
			}
			all = true
		}
	}
	return all
}
