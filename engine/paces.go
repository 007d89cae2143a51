package engine

import "context"

// keepPace waits until lanes and outputs have caught up, or ctx ends.
func (rd *reader) keepPace(ctx context.Context) {
	r := rd.r
	if !r.crowded(1) {
		return
	}
	rd.waits(true)
	defer rd.waits(false)
	r.pace.wait(ctx, r.ease)
}

// ease lets readers go on when half of what they were ahead is done. It is called
// whenever that may have become true.
func (r *run) ease() { r.pace.ease(r.crowded) }

// crowded says that every lane has so much before it, or every output that works,
// for each of its writes.
func (r *run) crowded(part int) bool {
	if r.lanes.crowded(max(ahead/r.lanes.lanes, 2*slowRun, 2*r.plan.steps.together)/part, aheadBytes/part) {
		return true
	}
	all := false
	for _, o := range r.outputs {
		if o.plan.feeds {
			if !o.crowded(ahead/part, aheadBytes/part) {
				return false
			}
			all = true
		}
	}
	return all
}

// crowded is not said of an output that is held: what waits for it is bounded by
// credits, which it keeps.
func (o *outRun) crowded(msgs, bytes int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready.crowded(msgs*o.most, bytes) && !o.gate.shut
}
