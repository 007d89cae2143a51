package poll

import (
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// mostShown bounds the states of sources that Sources returns.
const mostShown = 1000

// Sources returns the states of the sources, those that fail first.
func (in *input) Sources() []engine.SourceState {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	var all []engine.SourceState
	for _, failing := range []bool{true, false} {
		for _, s := range in.sources {
			if (s.failure != nil) == failing && s.state != retired && len(all) < mostShown {
				all = append(all, s.shown(now))
			}
		}
	}
	return slices.Clip(all)
}

// shown is the state of a source, for people; in.mu is held.
func (s *source) shown(now time.Time) engine.SourceState {
	x := engine.SourceState{Name: s.polled.Name, State: "reading", Weight: s.polled.Weight, Received: s.received, InFlight: s.unsettled}
	if s.failure != nil {
		x.Err = s.failure.Error()
	}
	switch {
	case s.state == restarts:
		x.State = "restarting"
	case s.state == ended:
		x.State = "ended"
	case s.state == gone:
		x.State = "failed"
	case s.held != nil:
		x.State = "held"
	case s.waits:
		x.State = "empty"
	case !s.polling && now.Before(s.due):
		x.State, x.Due = "empty", s.due
	}
	if part, ok := s.part.(engine.Scheduled); ok && x.State == "empty" {
		x.Due = part.Due()
	}
	return x
}
