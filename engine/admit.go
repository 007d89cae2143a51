package engine

import "slices"

// role is what a message of a run has to do with the decision on it: see admit.
type role uint8

const (
	asks role = 1 << iota // it moves on, or is kept
	owns                  // it holds its keys from now on
)

// admit decides which messages of a run may move on from where they are, out of the
// lanes or into a write, and has others hold their keys. What may not is kept, to come
// here again when it is the first. All of that is one decision: a message that leaves a
// group meanwhile is before all of the run, or none.
func (h *holds) admit(b *Batch, out *place, does func(i int, m *Message) role) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if m.in.Dead {
			continue
		}
		p := does(i, m)
		if p&asks != 0 && len(h.ahead(m, out)) > 0 {
			h.stay(b.in.Msgs[:i], m, out)
			continue
		}
		if p&owns != 0 {
			h.claim(m, out)
		}
	}
}

// stay keeps a message of a run. When one with several keys is kept for one of them, it
// must not come before earlier ones, which move on, in the others' lines.
func (h *holds) stay(earlier []Message, m *Message, out *place) {
	for i := range earlier {
		if e := &earlier[i]; len(m.in.Of) > 0 && e.in.State == live && !e.in.Dead {
			h.claim(e, out)
		}
	}
	x := h.keep(m, out)
	h.claim(&x.m, out)
	x.blocked = h.ahead(&x.m, out)
	x.m.eachLeafKey(func(leaf *Message) { claimOf(leaf).x = x })
}

// passes is admit for a message that is alone, or is decided on by itself behind others
// that are about to be written from the same place.
func (h *holds) passes(earlier []Message, m *Message, out *place) bool {
	if h.any.Load() == 0 || m.in.Dead {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ahead(m, out)) == 0 {
		return true
	}
	h.stay(earlier, m, out)
	return false
}

// behind keeps back what is behind messages that have failed or wait in a step, so
// that no later step merges it, and has what is before them hold its keys first.
func (h *holds) behind(b *Batch, at stage, out *place) {
	if !h.ordered {
		return
	}
	troubled := b.foresee()
	h.admit(b, out, func(i int, m *Message) role {
		switch m.in.State {
		case live:
			if m.hasOne(troubled) {
				m.in.Stage = at
				return asks | owns
			}
		case failed, waits, parked:
			return owns
		case consumed: // its parts are still to be made
			if m.hasOne(troubled) && slices.ContainsFunc(b.in.Splits, func(s pendingSplit) bool { return s.i == i }) {
				return owns
			}
		}
		return 0
	})
}

// foresee notes the keys of messages that have failed or wait already, and all keys
// of messages with one of them. What is before such a message, and about to be
// written, must hold its keys first.
func (b *Batch) foresee() (troubled map[string]bool) {
	for i := range b.in.Msgs {
		if m := &b.in.Msgs[i]; m.in.State == failed || m.in.State == waits || m.in.State == parked {
			if troubled == nil {
				troubled = map[string]bool{}
			}
			m.eachLeafKey(func(p *Message) { troubled[string(p.Key)] = true })
		}
	}
	for n := -1; n < len(troubled); {
		n = len(troubled)
		for i := range b.in.Msgs {
			if m := &b.in.Msgs[i]; m.in.State == live && len(m.in.Of) > 0 && m.hasOne(troubled) {
				m.eachLeafKey(func(p *Message) { troubled[string(p.Key)] = true })
			}
		}
	}
	return troubled
}

// hasOne says whether one of the keys of a message has been seen.
func (m *Message) hasOne(seen map[string]bool) (yes bool) {
	if len(seen) > 0 {
		m.eachLeafKey(func(p *Message) { yes = yes || seen[string(p.Key)] })
	}
	return yes
}
