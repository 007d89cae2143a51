package engine

// ends is why batchers must send at once what they hold, or "".
func (r *run) ends() Trigger {
	if r.upstream.Load() > 0 {
		return ""
	}
	return r.inputsEnd()
}

// inputsEnd is why nothing more will be read for now, or "".
func (r *run) inputsEnd() Trigger {
	switch {
	case (r.draining() || r.replacing()) && r.reading.Load() == r.following.Load():
		return ByDrain // what follows may wait for what lies here
	case r.reading.Load() > 0:
		return ""
	}
	return ByEnd
}

// carried counts that lanes or groups have dealt with n messages: what waits for
// that looks again.
func (r *run) carried(n int) {
	r.upstream.Add(int64(-n))
	r.credits.recheck()
	r.quiesce()
}

// quiesce looks whether an end has been reached: of what comes to the batchers,
// or of all.
func (r *run) quiesce() {
	if len(r.groups) > 0 {
		r.closeGroups()
	}
	if r.ends() == "" {
		return
	}
	for _, b := range r.routes {
		if open, _ := b.keeps(); open > 0 {
			b.poke()
		}
	}
	if r.reading.Load() == 0 && r.pieces.inFlight.Load() == 0 {
		select {
		case r.empty <- struct{}{}:
		default:
		}
	}
}

// relieve sends open batches on when readers or lanes wait for credits that
// nothing else can free: to outputs with an idle writer, the oldest first, a
// tenth of the credits. It is called whenever one of its conditions may have
// become true.
func (r *run) relieve() {
	r.ease()
	readers, lanes := r.credits.waiting()
	readers += int(r.replaying.Load())
	if readers+lanes == 0 || !r.lanes.stuck(lanes) {
		return
	}
	var ask []*batcherRun
	hungry := false
	for _, b := range r.routes {
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
		b.relieve(max(1, r.plan.maxMessages/10))
	}
}
