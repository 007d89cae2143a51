package dedupe_test

import (
	"context"
	goruntime "runtime"
	"strconv"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/dedupe"
)

// numbers is an input with n messages that have different ids, and an output.
type numbers struct{ n, at int }

func (s *numbers) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.at == s.n {
		return nil, engine.ErrEnd
	}
	for ; s.at < s.n && b.Room() > 0; s.at++ {
		b.Add(append(strconv.AppendInt([]byte(`{"id":`), int64(s.at), 10), '}'))
	}
	return nil, nil
}

func (s *numbers) Write(context.Context, *engine.Batch) error { return nil }

func (s *numbers) run(t testing.TB, step string) *runtime.Plan {
	t.Helper()
	var spec engine.StepSpec
	steptest.Decode(t, step, &spec)
	plan := enginetest.Build(t, &engine.Pipeline{
		Name: "numbers",
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return s, nil })}),
		Processors: engine.Steps{spec},
		Outputs: enginetest.Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return s, nil })}),
	})
	rep := plan.Run(t.Context(), t.Context())
	if got := rep.Stats.Roots.Ended[engine.Delivered]; got != int64(s.n) {
		t.Fatalf("delivered %d, want %d", got, s.n)
	}
	return plan
}

// BenchmarkDistinct measures one message with its own key, from the Read until the key is in memory.
func BenchmarkDistinct(b *testing.B) {
	b.ReportAllocs()
	(&numbers{n: b.N}).run(b, `{"dedupe": "id"}`)
}

func heap() uint64 {
	goruntime.GC()
	var s goruntime.MemStats
	goruntime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestKeysAreCompact(t *testing.T) {
	const n = 50_000
	before := heap()
	plan := (&numbers{n: n}).run(t, `{"dedupe": "id"}`)
	per := float64(heap()-before) / n
	goruntime.KeepAlive(plan)
	t.Logf("%.0f bytes per key", per)
	if per > 150 {
		t.Errorf("%.0f bytes per key, want at most 150", per)
	}
}
