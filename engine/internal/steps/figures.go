package steps

import (
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
)

// stepFigures count what a step does, once per call.
type stepFigures struct {
	name, typ string
	in        atomic.Int64
	bad       atomic.Int64
	retries   atomic.Int64
	took      *guard.Histogram
}

// NewStepFigures makes the figures of a step.
func NewStepFigures(name, typ string) *stepFigures {
	return &stepFigures{name: name, typ: typ, took: guard.NewHistogram(guard.LatencyBounds)}
}

// Called counts a call for n messages.
func (f *stepFigures) Called(n int, took time.Duration) {
	f.in.Add(int64(n))
	f.took.Observe(took.Seconds())
}

func (f *stepFigures) failed() { f.bad.Add(1) }

// Read is the figures at present.
func (f *stepFigures) Read() engine.StepState {
	return engine.StepState{Name: f.name, Type: f.typ, In: f.in.Load(), Failed: f.bad.Load(), Retries: f.retries.Load(),
		Latency: f.took.Read()}
}
