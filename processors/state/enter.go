package state

import (
	"context"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

// enter gives m the state of its key, or makes it wait for that state.
func (s *step) enter(ctx context.Context, m *engine.Message, c *chain) error {
	if c.ready != nil {
		select {
		case <-c.ready:
		case <-ctx.Done():
			return engine.WithClass(engine.Timeout, ctx.Err())
		}
	}
	if !s.inside {
		s.again(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return writebehind.Held(c.err)
	}
	e := &entry{step: s, chain: c, origins: m.Origins(nil)}
	if err := s.book.admits(e); err != nil {
		return err
	}
	c.log = append(c.log, e)
	if s.Wait && len(e.origins) > 0 && c.awaits(e) {
		s.book.note(e, m)
		e.resume = m.ParkBehind()
		return nil
	}
	if err := s.leave(m, e, c.now()); err != nil {
		e.state = gone
		s.book.save(c)
		return err
	}
	s.book.note(e, m)
	if e.owed == 0 { // no input has read it, so its fate is never reported
		e.state, c.fresh = committed, true
		s.book.save(c)
	}
	return nil
}

// leave evaluates the step for m, with the state before it. The caller holds the chain's lock.
func (s *step) leave(m *engine.Message, e *entry, now object) error {
	var copy *engine.Message
	if e.chain.log[0] != e {
		copy = m.Frozen()
	}
	before := m.Notes()
	l, err := s.next(m, now)
	if err != nil {
		return err
	}
	if !s.Into.IsZero() {
		if err := m.Doc().SetRaw(s.Into.Path, l.now.json()); err != nil {
			m.SetNotes(before)
			return err
		}
	}
	l.ref = e.ref
	e.chain.leaves(e, l.now, copy)
	return nil
}

// again undoes the change that m made in an earlier attempt: a step around this one is being retried.
func (s *step) again(m *engine.Message) {
	for x := range m.Notes().All(noteKey{}) {
		if l := x.(*left); l.step == s && l.ref != 0 {
			s.book.Undo([]uint64{l.ref})
		}
	}
}

// cut ends the wait of a message that waits for itself through others. It uses the current state. Messages that
// waited only for this one then wait for those before it.
func (e *entry) cut() {
	c := e.chain
	c.mu.Lock()
	var free []*entry
	if e.state == waiting {
		e.state = admitted
		c.book.graph.End(&e.wait)
		free = append([]*entry{e}, c.admit(slices.Index(c.log, e)+1)...)
	}
	c.mu.Unlock()
	for _, x := range free {
		x.goOn()
	}
}

// goOn continues a message that has waited.
func (e *entry) goOn() {
	e.resume(func(m *engine.Message) error {
		e.chain.mu.Lock()
		defer e.chain.mu.Unlock()
		e.chain.book.graph.End(&e.wait)
		if e.state != admitted {
			return errClosed
		}
		err := e.step.leave(m, e, e.chain.until(e))
		if err != nil {
			e.state = gone
			go e.step.book.settle(e.chain) // settle would deadlock here: this call holds the chain's lock
		}
		return err
	})
}
