package runtime

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// Pause makes the inputs stop reading; messages in flight continue. The log and hooks hear of it when every Read has
// returned. It may be called at any time and from any goroutine, like Resume, Drain, SetLimit and Snapshot.
func (p *Plan) Pause() { p.pause(true) }

// Resume makes paused inputs read again.
func (p *Plan) Resume() { p.pause(false) }

func (p *Plan) pause(paused bool) {
	if paused {
		p.Pauses.Set(true, func() {
			p.Log.Info("reading is paused")
			p.EmitEvent(engine.Event{Kind: engine.EventPaused})
		})
		return
	}
	if p.Pauses.Set(false, nil) {
		p.Log.Info("reading is resumed")
		p.EmitEvent(engine.Event{Kind: engine.EventPaused, Reason: "resumed"})
	}
}

// Drain finishes the messages in flight and ends the run, like the end of Run's context stop.
func (p *Plan) Drain() { p.drainOnce.Do(func() { close(p.drained) }) }

// SetLimit changes the rate limit with a name of engine.LimitState, at once or with the next window. burst 0 means messages.
// The error says which limits there are.
func (p *Plan) SetLimit(name string, messages int, per time.Duration, burst int, atOnce bool) error {
	var names []string
	for _, l := range p.Limits {
		if l.Name() == name {
			l.Change(time.Now(), messages, per, burst, atOnce)
			p.Log.Info("rate limit changed", "limit", name, "messages", messages, "per", per)
			return nil
		}
		if !slices.Contains(names, l.Name()) {
			names = append(names, l.Name())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("pipeline %s has no rate limit", p.Name)
	}
	return fmt.Errorf("pipeline %s has no rate limit %q (it has %q)", p.Name, name, names)
}

// Snapshot describes the pipeline as it is now. It only waits for short locks.
func (p *Plan) Snapshot() engine.Snapshot {
	if r := p.current.Load(); r != nil {
		s := r.Snapshot()
		s.Started = p.began
		if p.Replaced() { // and the next plan does not show its own state yet
			s.State, s.Err = engine.Draining, ""
		}
		if s.State == engine.Stopped { // whatever they did last
			for i := range s.Inputs {
				s.Inputs[i].State = "ended"
			}
		}
		s.Since = p.since(r, s.State)
		return s
	}
	return engine.Snapshot{Pipeline: p.Name, State: engine.Starting, MaxMessages: p.MaxMessages, MaxBytes: p.MaxBytes,
		Lanes: p.Workers, Failed: map[engine.Class]int64{}}
}

// since is when the run entered its state; zero: not known yet.
func (p *Plan) since(r *stage.Run, state engine.State) time.Time {
	switch state {
	case engine.Starting:
		return p.started
	case engine.Paused:
		return p.Pauses.Since()
	case engine.Running:
		at := r.Ran()
		if !p.ran.IsZero() {
			at = p.ran
		}
		if resumed := p.Pauses.Since(); resumed.After(at) {
			at = resumed
		}
		return at
	case engine.Draining:
		return r.Ended()
	}
	return r.Stopped()
}
