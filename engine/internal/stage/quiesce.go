package stage

import "github.com/flowd-io/flowd/engine"

// balance looks at all parts of a run: whether more can come, whether anything is left, and who waits for what.
type balance struct {
	*settlement
	intake   *intake
	batching *batching
	writing  *writing
}

// Quiesce looks whether the run is over.
func (r *Run) Quiesce() { r.balance.quiesce() }

// ends is why batchers must send what they hold at once, or "".
func (x *balance) ends() engine.Trigger {
	if x.lanes.upstream.Load() > 0 {
		return ""
	}
	return x.inputsEnd()
}

// inputsEnd is why nothing more will be read for now, or "".
func (x *balance) inputsEnd() engine.Trigger {
	switch {
	case (x.Draining() || x.Replacing()) && x.intake.reading.Load() == x.intake.following.Load():
		return engine.ByDrain // readers that follow may wait for messages that are in batches here
	case x.intake.reading.Load() > 0:
		return ""
	}
	return engine.ByEnd
}

// carried notes that lanes or groups are done with n messages, and wakes who waits for that.
func (s *settlement) carried(n int) {
	s.lanes.upstream.Add(int64(-n))
	s.credits.Recheck()
	s.balance.quiesce()
}

// quiesce flushes batchers that will get no more messages, and notices when the run is empty.
func (x *balance) quiesce() {
	if len(x.batching.groups) > 0 {
		x.closeGroups()
	}
	if x.ends() == "" {
		return
	}
	for _, b := range x.batching.batchers {
		if open, _ := b.keeps(); open > 0 {
			b.poke()
		}
	}
	if x.intake.reading.Load() == 0 && x.Pieces.InFlight.Load() == 0 && x.Withheld() == 0 {
		select {
		case x.verdict.Empty <- struct{}{}:
		default:
		}
	}
}

// closeGroups closes the first group that is not empty, when nothing more will reach it.
func (x *balance) closeGroups() {
	why := x.inputsEnd()
	if why == "" || x.lanes.upstream.Load() != x.lanes.grouped.Load() {
		return
	}
	for _, g := range x.batching.groups {
		if g.flush(why) {
			return
		}
	}
}
