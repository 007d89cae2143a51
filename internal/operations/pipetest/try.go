package pipetest

import (
	"sync"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/schema"
)

// Journey is the way of one message through a pipeline.
type Journey struct {
	Message int              `json:"message"` // from 1
	Input   string           `json:"input"`
	Payload observe.Payload  `json:"payload"` // as it was read
	Records []observe.Record `json:"records"`
	Fate    string           `json:"fate"`
	Error   *observe.Failure `json:"error,omitempty"`
}

// Delivers reports whether the message would end as intended.
func (j *Journey) Delivers() bool {
	return j.Fate == engine.Delivered.String() || j.Fate == engine.Filtered.String()
}

// Trial is the result of [Try].
type Trial struct {
	Journeys []Journey
	Uncalled []string         // steps that call other systems, and did not, by name
	Problems []schema.Problem // why the pipeline can't be built
	Err      error            // why the pipeline has stopped
}

// Try runs the messages of a test, which name their inputs, through a pipeline in virtual time, and returns the way of each
// message. Outputs write nothing, and fail only messages that their templates have no value for. Steps that call other
// systems and have no mock leave their messages as they are, unless live is set. As with [Run], a process can do this once.
func Try(r config.Rehearsal, live bool) (Trial, error) {
	t := Trial{}
	err := apart(func() { t = try(r, live) })
	return t, err
}

func try(r config.Rehearsal, live bool) (t Trial) {
	w := &watcher{spots: map[schema.Place]engine.Spot{},
		number: map[engine.Origin]int{}, journeys: make([]Journey, len(r.Test.Input))}
	w.remember(r.Pipeline)
	configs := map[string]any{} // of outputs
	for name, out := range r.Pipeline.Outputs.All() {
		configs[name] = out.Use.Config
	}
	s := newStage(r)
	if !live {
		t.Uncalled, w.notCalled = r.LeaveOutCalls()
	}
	s.set()
	for name, out := range s.sinks {
		out.fits = func(m *engine.Message) error { return observe.Refuses(configs[name], m) }
	}
	report, problems := s.play(w)
	t.Problems = problems
	if report == nil {
		return t
	}
	t.Err = report.Err
	for i := range w.journeys {
		j, in := &w.journeys[i], r.Test.Input[i]
		source := s.source(in.Input)
		j.Message, j.Payload = i+1, in.Bytes()
		j.Input = in.Input
		end, ended := source.results[i]
		if j.Fate = "unfinished"; ended {
			j.Fate = end.Fate.String()
		}
		if end.Err != nil {
			j.Error = &observe.Failure{Class: end.Err.Class, Message: end.Err.Error()}
		}
	}
	t.Journeys = w.journeys
	return t
}

// watcher records the way of each message. It is safe for concurrent use.
type watcher struct {
	spots     map[schema.Place]engine.Spot // what the file says of components that the trial replaces
	notCalled map[schema.Place]bool        // steps that do nothing

	mu       sync.Mutex            // guards the fields below
	number   map[engine.Origin]int // of each message in journeys
	journeys []Journey
}

// remember notes what is going to be replaced.
func (w *watcher) remember(p *engine.Pipeline) {
	for _, in := range p.Inputs.All() {
		w.spots[in.Use.Place] = engine.Spot{Type: in.Use.Name, Config: in.Use.Config}
	}
	for _, out := range p.Outputs.All() {
		w.spots[out.Use.Place] = engine.Spot{Type: out.Use.Name, Config: out.Use.Config}
	}
	r := config.Rehearsal{Pipeline: p}
	r.EachStep(func(s *engine.StepSpec) {
		w.spots[s.Place] = engine.Spot{Type: s.Use.Name, Config: s.Use.Config}
	})
}

// Wants asks for every message.
func (w *watcher) Wants(_ *engine.Spot, n int) int { return n }

// begun is a message as a spot got it.
type begun struct {
	was *observe.Snapshot
	at  time.Duration // of the real clock
}

// Before copies the message.
func (w *watcher) Before(_ *engine.Spot, m *engine.Message) any {
	return &begun{observe.Before(m), realTime()}
}

// After adds a record to the messages that m consists of.
func (w *watcher) After(at *engine.Spot, before any, b *engine.Batch, m *engine.Message, how engine.Passage) {
	ended := realTime()
	var was *observe.Snapshot
	spot := *at
	if known, ok := w.spots[at.Place]; ok {
		spot.Type, spot.Config = known.Type, known.Config
	}
	begun, _ := before.(*begun)
	if begun != nil {
		was = begun.was
	}
	r := observe.After(&spot, was, b, m, how)
	r.NotCalled = w.notCalled[at.Place]
	if begun != nil {
		r.Took = ended - begun.at
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Kind == engine.InputSpot {
		w.number[m.Origins(nil)[0]] = int(m.Ref)
	}
	seen := map[int]bool{} // of a merge of several parts of a message
	for _, o := range m.Origins(nil) {
		n, known := w.number[o]
		if !known || seen[n] {
			continue
		}
		seen[n] = true
		w.journeys[n].Records = append(w.journeys[n].Records, r)
	}
}

// Ended forgets the number of a message: another one may get its origin.
func (w *watcher) Ended(o engine.Origin, _ engine.Fate, _ *engine.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.number, o)
}
