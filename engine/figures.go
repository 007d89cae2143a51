package engine

import (
	"sync/atomic"
	"time"
)

// stepFigures count what a step does, once per call.
type stepFigures struct {
	name, typ string
	in        atomic.Int64
	bad       atomic.Int64
	retries   atomic.Int64
	took      *histogram
}

func newStepFigures(name, typ string) *stepFigures {
	return &stepFigures{name: name, typ: typ, took: newHistogram(latencyBounds)}
}

func (f *stepFigures) called(n int, took time.Duration) {
	f.in.Add(int64(n))
	f.took.observe(took.Seconds())
}

func (f *stepFigures) failed() { f.bad.Add(1) }

func (f *stepFigures) read() StepState {
	return StepState{Name: f.name, Type: f.typ, In: f.in.Load(), Failed: f.bad.Load(), Retries: f.retries.Load(), Latency: f.took.read()}
}
