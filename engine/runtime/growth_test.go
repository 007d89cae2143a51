package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// In a pipeline with room for 100,000 bytes, each message needs 30,000 more until it is written.
func TestAGrowingMessageWaitsForCredits(t *testing.T) {
	const room, grown = 100_000, 30_000
	pad := strings.Repeat("x", grown)
	asks := Step("grow", func(_ context.Context, m *engine.Message) error {
		if err := m.Grow(grown); err != nil {
			return err
		}
		m.SetBytes(append(slices.Clone(m.Bytes()), pad...))
		return nil
	})
	edits := Step("grow", func(_ context.Context, m *engine.Message) error {
		m.SetBytes(append(slices.Clone(m.Bytes()), pad...))
		return nil
	})
	twice := engine.Steps{asks,
		Step("nap", func(context.Context, *engine.Message) error { time.Sleep(time.Millisecond); return nil }), edits}
	tests := []struct {
		name  string
		build func(p *engine.Pipeline)
	}{
		{"in a step that asks first", func(p *engine.Pipeline) { p.Processors = engine.Steps{asks} }},
		{"in a step that does not ask", func(p *engine.Pipeline) { p.Processors = engine.Steps{edits} }},
		{"in two steps, of which the first leaves no room for the second",
			func(p *engine.Pipeline) { p.Processors = twice }},
		{"in order", func(p *engine.Pipeline) {
			p.Processors, p.Engine.OrderBy = twice, expr.MustCompile("len(raw()[0:8]) % 3")
		}},
		{"in an input's own steps", func(p *engine.Pipeline) {
			p.Inputs = Named("in", engine.InputSpec{Use: p.Inputs.Entries()[0].Value.Use, Processors: twice})
		}},
		{"in an output's own steps", func(p *engine.Pipeline) {
			out := p.Outputs.Entries()[0].Value
			out.Processors = twice
			p.Outputs = Named("out", out)
		}},
		{"in a batch", func(p *engine.Pipeline) {
			b := batched(t, `{"size": 50, "timeout": "1h"}`, "out")
			b.Processors = twice
			p.Batchers = Named("b", b)
		}},
		{"in a group", func(p *engine.Pipeline) {
			p.Processors = engine.Steps{group(engine.GroupConfig{Size: 50, Do: twice})}
		}},
		{"in a batch that waits for more", func(p *engine.Pipeline) {
			p.Processors, p.Batchers = twice, Named("b", batched(t, `{"size": 50, "timeout": "1h"}`, "out"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: numbers(100), Takes: engine.TakesOne, PerRead: 40},
					&Sink{Delay: time.Millisecond}
				var plan *runtime.Plan
				var most atomic.Int64
				failed := false
				dst.FailAll = func([]string) error {
					most.Store(max(most.Load(), int64(plan.Snapshot().Bytes)))
					if !failed { // a failed message keeps its memory for a while
						failed = true
						return errors.New("not yet")
					}
					return nil
				}
				p := pipe(src, dst)
				p.Engine.MaxInFlight.Bytes, p.Engine.Workers, p.Engine.OnFailure = room, 4, engine.EngineFailure{}
				tt.build(p)
				plan = Build(t, p)
				stuck := time.AfterFunc(time.Hour, func() { panic(fmt.Sprintf("stuck: %+v", plan.Snapshot())) })
				defer stuck.Stop()
				rep := plan.Run(t.Context(), t.Context())
				var got []string
				for _, body := range dst.Bodies() {
					got = append(got, strings.TrimRight(body, "x"))
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(src.Payloads))
				if !slices.Equal(got, want) || rep.Code() != 0 {
					t.Errorf("code %d, delivered %d of %d", rep.Code(), len(got), len(want))
				}
				if n := most.Load(); n < grown || n > 2*room {
					t.Errorf("up to %d bytes were under way", n)
				}
				if n := plan.Snapshot().Bytes; n != 0 {
					t.Errorf("%d bytes are charged for nothing", n)
				}
			})
		})
	}
}

func TestAMessageThatNeedsMoreThanAllCreditsFailsAlone(t *testing.T) {
	for _, asks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			src, dst, dlq := &Source{Payloads: numbers(20), Takes: engine.TakesOne}, &Sink{}, &Sink{}
			p := pipe(src, dst)
			p.Outputs = schema.MapOf(entry("out", dst.Output()), entry("dlq", dlq.Output()))
			p.Engine.OnFailure.DeadLetter = "dlq"
			p.Engine.MaxInFlight.Bytes = 100_000
			p.Batchers = Named("b", engine.BatcherSpec{Output: engine.Names{"out"}})
			p.Processors = engine.Steps{Step("grow", func(_ context.Context, m *engine.Message) error {
				if string(m.Bytes()) != src.Payloads[7] {
					return nil
				}
				if asks {
					if err := m.Grow(100_000); err != nil {
						return err
					}
				}
				m.SetBytes(make([]byte, 100_000))
				return nil
			})}
			rep := Run(t, p, nil)
			if got := dlq.Bodies(); len(got) != 1 || got[0] != src.Payloads[7] || len(dst.Bodies()) != 19 {
				t.Errorf("dead letters %q, delivered %d", got, len(dst.Bodies()))
			}
			if got := rep.Stats.Roots.Ended[engine.DeadLettered]; got != 1 {
				t.Errorf("dead-lettered %d", got)
			}
			for _, r := range src.Results() {
				if r.Err != nil && r.Err.Class != engine.TooLarge {
					t.Errorf("failed with class %s", r.Err.Class)
				}
			}
		})
	}
}
