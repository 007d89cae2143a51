package runtime_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
)

// TestALogTellsOfAStepThatWaits has steps whose server is out of reach, for two reasons, or only for some messages.
func TestALogTellsOfAStepThatWaits(t *testing.T) {
	began := time.Time{}
	down := func(*engine.Message) error {
		switch at := time.Since(began); {
		case at < time.Minute:
			return unreached("connection refused")
		case at < 2*time.Minute:
			return unreached("no such host")
		}
		return nil
	}
	tests := []struct {
		name string
		err  func(*engine.Message) error
		want []string
	}{
		{"all of it, for two reasons", down,
			[]string{"step waits: connection refused", "step waits, now for: no such host", "works again"}},
		{"some messages", func(m *engine.Message) error {
			if time.Since(began) < 30*time.Second && strings.HasSuffix(string(m.Bytes()), "3}") {
				return unreached("connection refused")
			}
			return nil
		}, []string{"step waits: connection refused", "works again"}},
		{"a refusal", func(*engine.Message) error {
			if time.Since(began) < time.Minute {
				return engine.Errorf(engine.Transient, "503")
			}
			return nil
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began = time.Now()
				step := Step("ask", func(_ context.Context, m *engine.Message) error { return tt.err(m) })
				step.Retry = &engine.Retry{MaxAttempts: 100}
				src := &Source{Payloads: numbers(100), Takes: engine.TakesOne, PerRead: 1, Every: 100 * time.Millisecond}
				var log bytes.Buffer
				plan, problems := runtime.Build(&engine.Pipeline{Inputs: Named("in", src.Input()),
					Outputs: Named("out", (&Sink{}).Output()), Processors: engine.Steps{step}, Engine: engine.EngineSpec{Workers: 1}},
					runtime.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				if plan == nil {
					t.Fatal(problems)
				}
				if rep := plan.Run(t.Context(), t.Context()); rep.Stats.Roots.Ended[engine.Delivered] != 100 {
					t.Errorf("not all were delivered: %+v", rep.Stats.Roots)
				}
				var got []string
				for line := range strings.Lines(log.String()) {
					if !strings.Contains(line, "step w") {
						continue
					}
					said := "works again"
					for _, why := range []string{"connection refused", "no such host"} {
						if strings.Contains(line, why) {
							said = "step waits: " + why
						}
					}
					if strings.Contains(line, "another reason") {
						said = strings.Replace(said, "waits:", "waits, now for:", 1)
					}
					got = append(got, said)
				}
				if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
					t.Errorf("the log says %q, want %q\n%s", got, tt.want, &log)
				}
			})
		})
	}
}

// Attempts that are not counted have no limit, so that a policy that does not wait would have them follow each other.
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
