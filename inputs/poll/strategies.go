package poll

import (
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/engine"
)

const weighted = "weighted_round_robin"

func init() {
	engine.Register(polling.Strategies, weighted, "Slots in turn, smoothly and in proportion to weight.", struct{}{},
		func(struct{}, engine.Env) (polling.Strategy, error) { return roundRobin{}, nil })
	engine.Register(polling.Strategies, "strict_priority",
		"All slots to the source of the highest weight that has messages.", struct{}{},
		func(struct{}, engine.Env) (polling.Strategy, error) { return &priority{}, nil })
}

// roundRobin is nginx's smooth weighted round robin: in each turn, every free source earns its weight, and the source with the most
// credit is chosen and pays what all have earned. Weights 5, 1, 1 give a a b a c a a. A source that is away for a while earns
// nothing meanwhile, and starts with its whole weight when it is back.
type roundRobin struct{}

type balance struct{ earned int }

func (roundRobin) Next(_ time.Time, open []*polling.Source) *polling.Source {
	var best *polling.Source
	most, total := 0, 0
	for _, s := range open {
		if s.Busy {
			continue
		}
		b := stateOf[balance](s)
		b.earned += s.Weight
		total += s.Weight
		if best == nil || b.earned > most {
			best, most = s, b.earned
		}
	}
	if best != nil {
		stateOf[balance](best).earned -= total
	}
	return best
}

// Empty resets a source's credit, so that it gets its share when it is back, and not a burst.
func (roundRobin) Empty(s *polling.Source) {
	b := stateOf[balance](s)
	b.earned = min(b.earned, 0)
}

func (roundRobin) Found(*polling.Source, int) {}
func (roundRobin) Done(*polling.Source, int)  {}

// priority scans the sources from the highest weight down, in the order written among equal weights. It goes on to the next source
// when one was empty, and back to the top when one had messages or is back from a pause.
type priority struct {
	scan  int // its number: counts restarts from the top
	calls int // of Next
}

type place struct {
	passed int // the scan in which it had nothing, from 1
	seen   int // the call of Next in which it was open last
}

func (p *priority) Next(_ time.Time, open []*polling.Source) *polling.Source {
	p.calls++
	for _, s := range open {
		at := stateOf[place](s)
		if at.seen != p.calls-1 {
			p.restart()
		}
		at.seen = p.calls
	}
	best := p.highest(open)
	if best == nil {
		p.restart()
		best = p.highest(open)
	}
	if best != nil && best.Busy {
		return nil // it may have more, and lower ones wait until that is known
	}
	return best
}

// highest returns the first source of the highest weight that the scan has not passed.
func (p *priority) highest(open []*polling.Source) (best *polling.Source) {
	for _, s := range open {
		if stateOf[place](s).passed != p.scan+1 && (best == nil || s.Weight > best.Weight) {
			best = s
		}
	}
	return best
}

func (p *priority) restart() { p.scan++ }

func (p *priority) Found(*polling.Source, int) { p.restart() }
func (p *priority) Empty(s *polling.Source)    { stateOf[place](s).passed = p.scan + 1 }
func (p *priority) Done(*polling.Source, int)  {}

// stateOf returns a strategy's own state of a source.
func stateOf[T any](s *polling.Source) *T {
	t, ok := s.State.(*T)
	if !ok {
		t = new(T)
		s.State = t
	}
	return t
}
