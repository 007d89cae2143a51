package runtime_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// TestAnOutputThatIsDownIsHeld uses an output that is unreachable for a while. However long that lasts, it uses up no attempts.
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

// If a drain loses messages because the only output is down, the error says why.
func TestWhatIsLostBehindAHeldOutputSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, drain := context.WithCancel(t.Context())
		refused := false
		dst := &Sink{FailAll: func([]string) error {
			if !refused {
				refused = true
				time.AfterFunc(time.Minute, drain)
			}
			return engine.Errorf(engine.Auth, "401 Unauthorized")
		}}
		rep := Run(t, pipe(&Source{Payloads: numbers(3)}, dst), stop)
		if len(rep.Failures) != 1 {
			t.Fatalf("%+v", rep.Failures)
		}
		f := rep.Failures[0]
		if f.Count != 3 || f.First.Class != engine.Auth || f.First.Place != "output out" ||
			!strings.Contains(f.First.Message, "401 Unauthorized") {
			t.Errorf("%+v", f)
		}
	})
}
