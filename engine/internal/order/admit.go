package order

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Role is what a message of a run has to do with the decision on it: see admit.
type Role uint8

const (
	Asks Role = 1 << iota // it moves on, or is kept
	Owns                  // it holds its keys from now on
)

// Admit decides which messages of a run may move on from where they are, out of the lanes
// or into a write, and makes others hold their keys. What may not is kept, and decided
// again when it is first. All of that is one decision: a message that leaves a group
// meanwhile is before all of the run, or none.
func (h *Holds) Admit(b *engine.Batch, out *Place, does func(i int, m *engine.Message) Role) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).Dead {
			continue
		}
		p := does(i, m)
		if p&Asks != 0 && len(h.ahead(m, out)) > 0 {
			h.stay(slab(b).Msgs[:i], m, out)
			continue
		}
		if p&Owns != 0 {
			h.claim(m, out)
		}
	}
}

// stay keeps a message of a run. When one with several keys is kept for one of them, it
// must not overtake earlier ones, which move on, in the others' lines.
func (h *Holds) stay(earlier []engine.Message, m *engine.Message, out *Place) {
	for i := range earlier {
		if e := &earlier[i]; len(msg(m).Of) > 0 && msg(e).State == inside.Live && !msg(e).Dead {
			h.claim(e, out)
		}
	}
	x := h.keep(m, out)
	h.claim(&x.m, out)
	x.blocked = h.ahead(&x.m, out)
	EachLeafKey(&x.m, func(leaf *engine.Message) { ClaimOf(leaf).x = x })
}

// Passes is admit for a message that is alone, or is decided on by itself behind others
// that are about to be written from the same place.
func (h *Holds) Passes(earlier []engine.Message, m *engine.Message, out *Place) bool {
	if h.Any.Load() == 0 || msg(m).Dead {
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

// Behind keeps back messages after those that have failed or wait in a step, so that no
// later step merges them, and makes those before them hold their keys first.
func (h *Holds) Behind(b *engine.Batch, at inside.Stage, out *Place) {
	if !h.ordered {
		return
	}
	troubled := Foresee(b)
	h.Admit(b, out, func(i int, m *engine.Message) Role {
		switch msg(m).State {
		case inside.Live:
			if HasOne(m, troubled) {
				msg(m).Stage = at
				return Asks | Owns
			}
		case inside.Failed, inside.Waits, inside.Parked:
			return Owns
		case inside.Consumed: // its parts are still to be made
			if HasOne(m, troubled) && slab(b).IsSplit(i) {
				return Owns
			}
		}
		return 0
	})
}

// Foresee notes the keys of messages that have failed or wait already, and all keys
// of messages with one of them. What is before such a message, and about to be
// written, must hold its keys first.
func Foresee(b *engine.Batch) (troubled map[string]bool) {
	for i := range slab(b).Msgs {
		if m := &slab(b).Msgs[i]; msg(m).State == inside.Failed || msg(m).State == inside.Waits ||
			msg(m).State == inside.Parked {
			if troubled == nil {
				troubled = map[string]bool{}
			}
			EachLeafKey(m, func(p *engine.Message) { troubled[string(p.Key)] = true })
		}
	}
	for n := -1; n < len(troubled); {
		n = len(troubled)
		for i := range slab(b).Msgs {
			if m := &slab(b).Msgs[i]; msg(m).State == inside.Live && len(msg(m).Of) > 0 && HasOne(m, troubled) {
				EachLeafKey(m, func(p *engine.Message) { troubled[string(p.Key)] = true })
			}
		}
	}
	return troubled
}

// HasOne says whether one of the keys of a message has been seen.
func HasOne(m *engine.Message, seen map[string]bool) (yes bool) {
	if len(seen) > 0 {
		EachLeafKey(m, func(p *engine.Message) { yes = yes || seen[string(p.Key)] })
	}
	return yes
}
