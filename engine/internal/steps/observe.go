package steps

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Sight tells observers of the messages that pass spots. Its goroutine is that of one executor or writer. The zero Sight has
// no observers.
type Sight struct {
	Observers []engine.Observer
	before    [][]any // by observer: what it has noted of the first messages of a selection
}

// Begin is called before a step or an output gets the messages sel of b. It reports whether Passed must be called.
func (s *Sight) Begin(at *engine.Spot, b *engine.Batch, sel []int32) (observed bool) {
	if len(s.Observers) == 0 || at == nil {
		return false
	}
	if s.before == nil {
		s.before = make([][]any, len(s.Observers))
	}
	for o, observer := range s.Observers {
		for _, i := range sel[:wanted(observer, at, len(sel))] {
			s.before[o], observed = append(s.before[o], observer.Before(at, &slab(b).Msgs[i])), true
		}
	}
	return observed
}

// Passed is called after a step or an output has had the messages sel of b, and before what it did is carried out. done is
// the passage of a message that goes on.
func (s *Sight) Passed(at *engine.Spot, b *engine.Batch, sel []int32, done engine.Passage) {
	for o, observer := range s.Observers {
		for n, before := range s.before[o] {
			how := passage(b, int(sel[n]))
			if how == engine.PassedOn {
				how = done
			}
			observer.After(at, before, b, &slab(b).Msgs[sel[n]], how)
		}
		clear(s.before[o])
		s.before[o] = s.before[o][:0]
	}
}

// All is called when all messages of b have passed a spot.
func (s *Sight) All(at *engine.Spot, b *engine.Batch, how engine.Passage) {
	if at == nil {
		return
	}
	for _, observer := range s.Observers {
		n := wanted(observer, at, len(slab(b).Msgs))
		for i := range slab(b).Msgs[:n] {
			m := &slab(b).Msgs[i]
			passed := how
			if msg(m).State == inside.Failed {
				passed = engine.FailedThere
			}
			observer.After(at, nil, b, m, passed)
		}
	}
}

// One is called when a message has passed a spot.
func (s *Sight) One(at *engine.Spot, b *engine.Batch, m *engine.Message, how engine.Passage) {
	if at == nil {
		return
	}
	for _, observer := range s.Observers {
		if wanted(observer, at, 1) > 0 {
			observer.After(at, nil, b, m, how)
		}
	}
}

// wanted returns how many of n messages an observer wants to see.
func wanted(o engine.Observer, at *engine.Spot, n int) int { return max(0, min(o.Wants(at, n), n)) }

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
