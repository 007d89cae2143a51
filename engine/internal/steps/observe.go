package steps

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Sight tells an observer of the messages that pass spots. Its goroutine is that of one executor or writer. The zero Sight
// has no observer.
type Sight struct {
	Observer engine.Observer // nil: none
	before   []any           // what the observer has noted of the first messages of a selection
}

// Sees reports whether one message at a spot is observed.
func (s *Sight) Sees(at *engine.Spot) bool {
	return s.Observer != nil && at != nil && s.Observer.Wants(at, 1) > 0
}

// Begin is called before a step or an output gets the messages sel of b. It reports whether Passed must be called.
func (s *Sight) Begin(at *engine.Spot, b *engine.Batch, sel []int32) bool {
	if s.Observer == nil || at == nil {
		return false
	}
	n := min(s.Observer.Wants(at, len(sel)), len(sel))
	for _, i := range sel[:max(n, 0)] {
		s.before = append(s.before, s.Observer.Before(at, &slab(b).Msgs[i]))
	}
	return n > 0
}

// Passed is called after a step or an output has had the messages sel of b, and before what it did is carried out. done is
// the passage of a message that goes on.
func (s *Sight) Passed(at *engine.Spot, b *engine.Batch, sel []int32, done engine.Passage) {
	for n, before := range s.before {
		how := passage(b, int(sel[n]))
		if how == engine.PassedOn {
			how = done
		}
		s.Observer.After(at, before, b, &slab(b).Msgs[sel[n]], how)
	}
	clear(s.before)
	s.before = s.before[:0]
}

// All is called when all messages of b have passed a spot.
func (s *Sight) All(at *engine.Spot, b *engine.Batch, how engine.Passage) {
	if s.Observer == nil || at == nil {
		return
	}
	n := s.Observer.Wants(at, len(slab(b).Msgs))
	for i := range slab(b).Msgs[:max(min(n, len(slab(b).Msgs)), 0)] {
		m := &slab(b).Msgs[i]
		if msg(m).State == inside.Failed {
			s.Observer.After(at, nil, b, m, engine.FailedThere)
			continue
		}
		s.Observer.After(at, nil, b, m, how)
	}
}

// One is called when a message has passed a spot.
func (s *Sight) One(at *engine.Spot, b *engine.Batch, m *engine.Message, how engine.Passage) {
	if s.Sees(at) {
		s.Observer.After(at, nil, b, m, how)
	}
}

// passage returns what a step or an output has done with a message.
func passage(b *engine.Batch, i int) engine.Passage {
	switch msg(&slab(b).Msgs[i]).State {
	case inside.Dropped:
		return engine.FilteredOut
	case inside.Failed:
		return engine.FailedThere
	case inside.Parked, inside.Waits:
		return engine.IsWaiting
	case inside.Consumed:
		for _, s := range slab(b).Splits {
			if s.I == i {
				return engine.SplitUp
			}
		}
		return engine.MergedInto
	}
	return engine.PassedOn
}
