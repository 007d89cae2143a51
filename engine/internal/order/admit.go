package order

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Role says how [Holds.Admit] treats a message.
type Role uint8

const (
	Asks Role = 1 << iota // the message moves on if it may, and is kept otherwise
	Owns                  // the message holds its keys from now on
)

// Admit decides which messages of a batch may move on from a place: out of the lanes, or into a write. It keeps the
// others until they are first in their lines. It decides on all messages under one lock, so that a message that leaves
// a group meanwhile is either before all of them or behind all of them.
func (h *Holds) Admit(b *engine.Batch, out *Place, does func(i int, m *engine.Message) Role) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).Dead {
			continue
		}
		p := does(i, m)
		if p&Asks != 0 && len(h.linesAhead(m, out)) > 0 {
			h.stay(slab(b).Msgs[:i], m, out)
			continue
		}
		if p&Owns != 0 {
			h.claim(m, out)
		}
	}
}

// stay keeps a message of a batch. Earlier merges of the batch that move on hold their keys first. Otherwise m, kept
// for one of its keys, could get in front of them in the line of another key.
func (h *Holds) stay(earlier []engine.Message, m *engine.Message, out *Place) {
	for i := range earlier {
		if e := &earlier[i]; len(msg(m).Of) > 0 && msg(e).State == inside.Live && !msg(e).Dead {
			h.claim(e, out)
		}
	}
	x := h.keep(m, out)
	h.claim(&x.m, out)
	x.blocked = h.linesAhead(&x.m, out)
	EachLeafKey(&x.m, func(leaf *engine.Message) { ClaimOf(leaf).x = x })
}

// Passes is [Holds.Admit] for a single message. earlier are the messages before it in its batch.
func (h *Holds) Passes(earlier []engine.Message, m *engine.Message, out *Place) bool {
	if h.Any.Load() == 0 || msg(m).Dead {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.linesAhead(m, out)) == 0 {
		return true
	}
	h.stay(earlier, m, out)
	return false
}

// Behind is called when messages of b have failed or wait in a step. It keeps later messages with their keys, so that no
// later step merges them. Earlier messages with their keys hold them first.
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
		case inside.Consumed: // its parts have not been made yet
			if HasOne(m, troubled) && slab(b).IsSplit(i) {
				return Owns
			}
		}
		return 0
	})
}

// Foresee returns the keys of messages in b that have failed or wait. If a merge has such a key, it returns all keys of the
// merge. Other messages with these keys must hold them before they are written, so that the failed ones come behind them.
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

// HasOne says whether a message has one of the keys in seen.
func HasOne(m *engine.Message, seen map[string]bool) (yes bool) {
	if len(seen) > 0 {
		EachLeafKey(m, func(p *engine.Message) { yes = yes || seen[string(p.Key)] })
	}
	return yes
}
