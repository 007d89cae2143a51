package engine

// recall is told that m goes back to its source. Where the source delivers it again
// before what is behind it, all that was read later with its order key goes back, too:
// else it would be delivered first.
func (r *account) recall(m *Message) {
	at := rootOf(m)
	first := at.led
	if m.Key == nil || first.acks == nil || !first.acks.withholds {
		return
	}
	for _, l := range r.open.list() {
		switch {
		case l == first:
			r.recalls.Add(l.recall(m.Key, at.i+1))
		case l.acks == first.acks && l.first > first.first:
			r.recalls.Add(l.recall(m.Key, 0))
		}
	}
}

// recall marks the roots from one on that have a key, and says how many marks are new.
func (l *ledger) recall(key []byte, from uint32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, marked := l.recalled[string(key)]
	switch {
	case marked && at <= from || int(from) == len(l.roots) || l.open.Load() == 0:
		return 0
	case l.recalled == nil:
		l.recalled = map[string]uint32{}
	}
	l.recalled[string(key)] = from
	if marked {
		return 0
	}
	return 1
}

// recalls is how many marks there are.
func (l *ledger) recalls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.recalled)
}

// recalled says whether m is to go back. A merge does as soon as one of its parts is to.
func (m *Message) recalled() bool {
	for i := range m.in.Of {
		if m.in.Of[i].recalled() {
			return true
		}
	}
	r := rootOf(m)
	l := r.led
	if len(m.in.Of) > 0 || l == nil || m.Key == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	from, marked := l.recalled[string(m.Key)]
	return marked && r.i >= from
}
