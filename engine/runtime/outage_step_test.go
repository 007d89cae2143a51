package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// Attempts that are not counted are not limited. With a policy without back-off they must nevertheless not follow each other at
// once.
func TestAStepWhoseServerIsAwayIsNotCalledWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		step := Step("ask", func(context.Context, *engine.Message) error {
			if calls++; time.Since(began) < time.Minute && calls < 100_000 {
				return unreached("connection refused")
			}
			return nil
		})
		step.Retry = &engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{0}}
		src := &Source{Payloads: numbers(1), Takes: engine.TakesOne}
		rep := Run(t, pipe(src, &Sink{}, step), nil)
		if n := rep.Stats.Roots.Ended[engine.Delivered]; n != 1 || calls > 100 {
			t.Errorf("delivered %d, after %d calls in %v", n, calls, time.Since(began))
		}
	})
}
