package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
)

func TestATimeoutInterruptsAnExpression(t *testing.T) {
	long := expr.MustCompile(`count(1..1000, count(1..1000, # > 0) > 0)`)
	steps := runtime.NewRunner(engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		_, err := long.Eval(m)
		return err
	}))
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, tt := range []struct {
		ctx    context.Context
		failed engine.Class
	}{{over, engine.Timeout}, {t.Context(), ""}, {over, engine.Timeout}} {
		b := engine.NewBatch(2)
		b.Add([]byte(`{}`))
		b.Add([]byte(`{}`))
		_ = steps.Run(tt.ctx, b)
		n := 0
		for m := range b.Ended() {
			if n++; m.Err().Class != tt.failed {
				t.Errorf("got class %s (%v), want %s", m.Err().Class, m.Err(), tt.failed)
			}
		}
		if want := map[bool]int{true: 2}[tt.failed != ""]; n != want {
			t.Errorf("%d messages failed, want %d", n, want)
		}
		for m := range b.All() {
			if _, err := long.Eval(m); err != nil {
				t.Errorf("behind the call: %v", err)
			}
		}
	}
}
