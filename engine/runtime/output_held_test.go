package runtime_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// TestAnOutputThatIsDownIsHeld has an output say that it can't be reached for a while:
// that costs no attempt, however long it is.
func TestAnOutputThatIsDownIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var tries atomic.Int64
		src := &Source{Payloads: numbers(20), Takes: engine.TakesOne}
		dst := &Sink{FailAll: func([]string) error {
			tries.Add(1)
			if time.Since(began) < 10*time.Minute {
				return &engine.Error{Class: engine.Transient, Holds: true, Err: engine.Errorf(engine.Transient, "down")}
			}
			return nil
		}}
		rep := Run(t, &engine.Pipeline{
			Inputs: Named("in", src.Input()), Outputs: Named("out", dst.Output()),
			Engine: engine.EngineSpec{OnFailure: engine.EngineFailure{Retry: &engine.Retry{MaxAttempts: 1}}},
		}, nil)
		if got := rep.Stats.Roots.Ended[engine.Delivered]; rep.Err != nil || got != 20 {
			t.Errorf("err %v, %d delivered", rep.Err, got)
		}
		if n := tries.Load(); n > 100 {
			t.Errorf("%d tries in ten minutes: it is not held", n)
		}
	})
}
