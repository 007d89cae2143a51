package ledger

import "github.com/flowd-io/flowd/engine"

// recall is called when m goes back to its source. If the source delivers it again before
// what follows it, everything that was read later with its order key goes back, too:
// otherwise that would be delivered first.
func (r *Account) Recall(m *engine.Message) {
	at := RootOf(m)
	first := at.Led
	if m.Key == nil || first.Acks == nil || !first.Acks.withholds {
		return
	}
	for _, l := range r.Open.List() {
		switch {
		case l == first:
			r.Recalls.Add(l.recall(m.Key, at.I+1))
		case l.Acks == first.Acks && l.First > first.First:
			r.Recalls.Add(l.recall(m.Key, 0))
		}
	}
}

// recall marks the roots from one on that have a key, and says how many marks are new.
func (l *Ledger) recall(key []byte, from uint32) int64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	at, marked := l.recalled[string(key)]
	switch {
	case marked && at <= from || int(from) == len(l.Roots) || l.Open.Load() == 0:
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
func (l *Ledger) Recalls() int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return len(l.recalled)
}

// recalled says whether m is to go back. A merge does as soon as one of its parts is to.
func recalled(m *engine.Message) bool {
	for i := range msg(m).Of {
		if recalled(&msg(m).Of[i]) {
			return true
		}
	}
	r := RootOf(m)
	l := r.Led
	if len(msg(m).Of) > 0 || l == nil || m.Key == nil {
		return false
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	from, marked := l.recalled[string(m.Key)]
	return marked && r.I >= from
}
