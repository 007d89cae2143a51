package stage

import "github.com/flowd-io/flowd/engine"

// ends is why batchers must send what they hold at once, or "".
func (r *Run) ends() engine.Trigger {
	if r.upstream.Load() > 0 {
		return ""
	}
	return r.inputsEnd()
}

// inputsEnd is why nothing more will be read for now, or "".
func (r *Run) inputsEnd() engine.Trigger {
	switch {
	case (r.Draining() || r.Replacing()) && r.reading.Load() == r.following.Load():
		return engine.ByDrain // what follows may wait for what is here
	case r.reading.Load() > 0:
		return ""
	}
	return engine.ByEnd
}

// carried counts n messages that lanes or groups are done with, and has those look again that wait for it.
func (r *Run) carried(n int) {
	r.upstream.Add(int64(-n))
	r.credits.Recheck()
	r.Quiesce()
}

// Quiesce looks whether nothing more will come to the batchers, or nothing is left at all.
func (r *Run) Quiesce() {
	if len(r.groups) > 0 {
		r.closeGroups()
	}
	if r.ends() == "" {
		return
	}
	for _, b := range r.batchers {
		if open, _ := b.keeps(); open > 0 {
			b.poke()
		}
	}
	if r.reading.Load() == 0 && r.Pieces.InFlight.Load() == 0 && r.Withheld() == 0 {
		select {
		case r.Empty <- struct{}{}:
		default:
		}
	}
}

// closeGroups closes the first group that is not empty, when nothing more will reach it.
func (r *Run) closeGroups() {
	why := r.inputsEnd()
	if why == "" || r.upstream.Load() != r.grouped.Load() {
		return
	}
	for _, g := range r.groups {
		if g.flush(why) {
			return
		}
	}
}
