package poll

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// acker passes results to the acker of one connection of a source. The engine makes one call at a time. The lock is for messages
// that are returned without the engine.
type acker struct {
	src  *source
	to   engine.Acker
	self engine.Acker // itself, or with the ability to renew

	mu sync.Mutex // held while to is called
}

// leaser is an acker whose source leases messages.
type leaser struct{ *acker }

// ackerOf returns the acker that wraps a source's acker: always the same one for the same acker.
func (s *source) ackerOf(to engine.Acker) engine.Acker {
	if to == nil {
		return nil
	}
	if s.told == nil || s.told.to != to {
		s.told = &acker{src: s, to: to}
		s.told.self = s.told
		if _, ok := to.(engine.Leaser); ok {
			s.told.self = &leaser{s.told}
		}
	}
	return s.told.self
}

// Ack reports to the source how its messages ended.
func (a *acker) Ack(ctx context.Context, results []engine.Result) (again []engine.Result, err error) {
	n := len(results)
	defer func() { a.src.in.settled(a.src, n-len(again)) }()
	return a.tell(ctx, results)
}

func (a *acker) tell(ctx context.Context, results []engine.Result) ([]engine.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.to.Ack(ctx, results)
}

// Renew renews leases.
func (l *leaser) Renew(ctx context.Context, refs []uint64) (lost []uint64, next time.Duration, err error) {
	return l.to.(engine.Leaser).Renew(ctx, refs)
}

// Traits reports whether the source withholds messages.
func (a *acker) Traits() engine.Traits { return engine.Traits{Withholds: a.src.withholds} }

// giveBack returns messages of h that no Read has taken, if the source takes back single messages. Other sources redeliver them by
// themselves, or can't.
func (s *source) giveBack(h *held) {
	in := s.in
	in.mu.Lock()
	if s.held != h {
		in.mu.Unlock()
		return // it is taken meanwhile
	}
	s.letGo()
	in.ready = slices.DeleteFunc(in.ready, func(r *source) bool { return r == s })
	in.mu.Unlock()
	var results []engine.Result
	for m := range h.batch.Ended() {
		results = append(results, engine.Result{Ref: m.Ref, Fate: engine.Returned, Err: m.Err()})
	}
	for m := range h.batch.All() {
		results = append(results, engine.Result{Ref: m.Ref, Fate: engine.Returned})
	}
	switch {
	case in.traits.TakesBack == engine.TakesOne && h.acker != nil:
		err := within(context.Background(), func(ctx context.Context) error {
			_, err := s.told.tell(ctx, results)
			return err
		})
		if err != nil {
			in.log.Warn("messages that were read could not be handed back: their source will deliver them again",
				"source", s.polled.Name, "messages", len(results), "err", err)
		}
	case in.traits.TakesBack == engine.TakesNothing:
		in.log.Warn("messages were read that the pipeline no longer takes, and their source takes nothing back",
			"source", s.polled.Name, "messages", len(results))
	}
}
