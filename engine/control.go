package engine

import (
	"fmt"
	"slices"
	"time"
)

// Pause makes the inputs stop reading; what is under way goes on. It may be called
// at any time, as may the other methods of control.
func (p *Plan) Pause() { p.pause(true) }

// Resume makes paused inputs read again.
func (p *Plan) Resume() { p.pause(false) }

func (p *Plan) pause(paused bool) {
	if !p.pauses.set(paused) {
		return
	}
	reason := ""
	if !paused {
		reason = "resumed"
	}
	p.log.Info("reading is " + map[bool]string{true: "paused", false: "resumed"}[paused])
	p.emitEvent(Event{Kind: EventPaused, Reason: reason})
}

// Drain finishes what is under way and ends the run, as the end of Run's stop does.
func (p *Plan) Drain() { p.drainOnce.Do(func() { close(p.drained) }) }

// SetLimit changes the rate limit of a name, as in [LimitState]: at once, or with
// the next window. burst 0 is as many as messages. The error names those there are.
func (p *Plan) SetLimit(name string, messages int, per time.Duration, burst int, atOnce bool) error {
	var names []string
	for _, l := range p.limits {
		if l.Name() == name {
			l.Change(time.Now(), messages, per, burst, atOnce)
			p.log.Info("rate limit changed", "limit", name, "messages", messages, "per", per)
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

// Snapshot is the pipeline as it is now. It waits for nothing but short locks.
func (p *Plan) Snapshot() Snapshot {
	s := Snapshot{Pipeline: p.Name, State: Starting, MaxMessages: p.maxMessages, MaxBytes: p.maxBytes, Lanes: p.workers, Failed: map[Class]int64{}}
	r := p.current.Load()
	if r == nil {
		return s
	}
	s.State, s.Started = r.state(), r.started
	if s.State == Stopped {
		if err := r.failed(); err != nil {
			s.Err = err.Error()
		}
	}
	s.Stats = p.Stats()
	s.Steps = states(p.steps, p.groups)
	s.DeadLettered = s.Stats.Pieces.Ended[DeadLettered]
	s.Retries, s.Waiting = int(r.retrying.Load()), r.credits.waits()
	s.Messages, s.Bytes = int(s.Stats.Pieces.InFlight), r.credits.used(p.maxBytes)
	s.LanesBusy = r.lanes.busy()
	s.OldestUnsettled, s.OldestAt = r.open.oldest()
	s.Held = r.held(time.Now())
	for _, in := range p.inputs {
		s.Inputs = append(s.Inputs, r.input(in))
	}
	for _, b := range r.routes {
		if b.plan.name != "" {
			s.Batchers = append(s.Batchers, b.state())
		}
	}
	for _, plan := range p.outputs {
		if o := r.outputs[plan]; o != nil {
			st := o.state()
			s.Outputs = append(s.Outputs, st)
		}
	}
	for _, l := range p.limits {
		s.Limits = append(s.Limits, l.State())
	}
	r.failures.count(s.Failed)
	s.Stuck = r.stuck(time.Now())
	if r.isOpen() { // everything is open
		s.Troubles = p.plugins.troubles()
	}
	return s
}
