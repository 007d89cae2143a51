package stage

import "github.com/flowd-io/flowd/engine"

// ends is why batchers must send at once what they hold, or "".
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
		return engine.ByDrain // what follows may wait for what lies here
	case r.reading.Load() > 0:
		return ""
	}
	return engine.ByEnd
}

// carried counts that lanes or groups have dealt with n messages: what waits for
// that looks again.
func (r *Run) carried(n int) {
	r.upstream.Add(int64(-n))
	r.Credits.Recheck()
	r.Quiesce()
}

// quiesce looks whether an end has been reached: of what comes to the batchers,
// or of all.
func (r *Run) Quiesce() {
	if len(r.groups) > 0 {
		r.closeGroups()
	}
	if r.ends() == "" {
		return
	}
	for _, b := range r.Routes {
		if open, _ := b.keeps(); open > 0 {
			b.poke()
		}
	}
	if r.reading.Load() == 0 && r.Pieces.InFlight.Load() == 0 {
		select {
		case r.Empty <- struct{}{}:
		default:
		}
	}
}

// relieve sends open batches on when readers or lanes wait for credits that
// nothing else can free: to outputs with an idle writer, the oldest first, a
// tenth of the credits. It is called whenever one of its conditions may have
// become true.
func (r *Run) relieve() {
	r.ease()
	readers, lanes := r.Credits.Waiting()
	readers += int(r.replaying.Load())
	if readers+lanes == 0 || !r.Lanes.Stuck(lanes) {
		return
	}
	var ask []*batcherRun
	hungry := false
	for _, b := range r.Routes {
		open, incoming := b.keeps()
		if incoming {
			return
		}
		for _, o := range b.leaves {
			if o.hungry() {
				hungry = true
				if open > 0 {
					ask = append(ask, b)
				}
				break
			}
		}
	}
	if hungry && len(ask) == 0 && len(r.groups) > 0 {
		r.relieveGroups()
	}
	for _, b := range ask {
		b.relieve(max(1, r.plan.MaxMessages/10))
	}
}
