package engine

import (
	"sync"
)

// Undoer is an optional ability of a Settler. Undo takes back stakes that [Message.StakeOnDelivery] made inside another
// step, when that step has failed and leaves the message as it was. Settle may still be called for them. Like Settle,
// Undo is called from any goroutine, possibly from several at once.
type Undoer interface {
	Undo(refs []uint64)
}

// Scope has the stakes that were made inside one step for one message. It is safe for concurrent use.
type Scope struct {
	outer *Scope // of the step around it; nil: none

	mu     sync.Mutex // guards the field below
	stakes []scoped
}

type scoped struct {
	by  Undoer
	ref uint64
}

// Enter gives a message a scope of its own, within the one that it has.
func (m *Cell) Enter() {
	m.setRare(func(r *rare) { r.Scope = &Scope{outer: r.Scope} })
}

// Leave ends the innermost scope of a message. Its stakes are taken back, or become those of the scope around it.
func (m *Cell) Leave(undo bool) {
	if m.Rare == nil || m.Rare.Scope == nil {
		return
	}
	s := m.Rare.Scope
	m.setRare(func(r *rare) { r.Scope = s.outer })
	s.mu.Lock()
	stakes := s.stakes
	s.stakes = nil
	s.mu.Unlock()
	for _, k := range stakes {
		if undo {
			k.by.Undo([]uint64{k.ref})
		} else {
			s.outer.add(k)
		}
	}
}

func (m *Message) scope() *Scope {
	if m.in.Rare == nil {
		return nil
	}
	return m.in.Rare.Scope
}

// add records a stake. A nil Scope records none.
func (s *Scope) add(k scoped) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stakes = append(s.stakes, k)
}
