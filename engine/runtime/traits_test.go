package runtime_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// asked is a plugin of three kinds that counts how often its traits are read.
type asked struct {
	Source
	Sink
	times atomic.Int32
}

func (a *asked) Traits() engine.Traits {
	a.times.Add(1)
	return engine.Traits{TakesBack: engine.TakesPosition, Sequential: true, Together: 3}
}

func (*asked) Process(context.Context, *engine.Batch) error { return nil }

func TestTraitsAreReadAtBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{Source: Source{Payloads: numbers(1000), PerRead: 10}} // its Reads return no Acker
		p := pipe(&a.Source, &a.Sink, engine.StepSpec{Use: Processing(a)})
		in := engine.Use(func(engine.Env) (engine.Input, error) { return a, nil })
		out := engine.Use(func(engine.Env) (engine.Output, error) { return a, nil })
		p.Inputs = Named("in", engine.InputSpec{Use: in})
		p.Outputs = Named("out", engine.OutputSpec{Use: out})
		plan := Build(t, p)
		built := a.times.Load()
		plan.Run(t.Context(), context.Background())
		if n := len(a.Bodies()); built != 3 || a.times.Load() != built || n != 1000 {
			t.Errorf("traits were read %d times at build and %d in all, for %d messages", built, a.times.Load(), n)
		}
	})
}
