package runtime_test

import (
	"context"
	"log/slog"
	goruntime "runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
)

// block is an input with n messages that share their bytes, and an output.
type block struct{ n int }

var payload = []byte(`{"n":1}`)

func (s *block) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.n == 0 {
		return s, engine.ErrEnd
	}
	for ; s.n > 0 && b.Room() > 0; s.n-- {
		b.Add(payload)
	}
	return s, nil
}

func (s *block) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

func (s *block) Ack(context.Context, []engine.Result) ([]engine.Result, error) { return nil, nil }

func (s *block) Write(context.Context, *engine.Batch) error { return nil }

// From Read to Ack, the loops allocate per Read and per write, never per message. The bytes vary with the number of slabs: a busy
// machine needs more of them at once, and with the race detector, pools drop a quarter of them. An allocation per message would
// nevertheless need more bytes.
func TestTheLoopsAllocateNothingPerMessage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools, at times that depend on the machine
	allocated := func(n int) (objects, bytes float64) {
		b := &block{n}
		p := &engine.Pipeline{
			Inputs: Named("in",
				engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return b, nil })}),
			Outputs: Named("out",
				engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return b, nil })}),
			Processors: engine.Steps{Step("touch", func(_ context.Context, m *engine.Message) error { return nil })},
			Engine:     engine.EngineSpec{Workers: 2},
		}
		plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.DiscardHandler)})
		if plan == nil {
			t.Fatal(problems)
		}
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		rep := plan.Run(context.Background(), context.Background())
		goruntime.ReadMemStats(&after)
		if got := rep.Stats.Roots.Ended[engine.Delivered]; got != int64(n) {
			t.Fatalf("delivered %d, want %d", got, n)
		}
		return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
	}
	const few, many = 20_000, 140_000
	allocated(few) // fills the pools
	objects, bytes := allocated(few)
	moreObjects, moreBytes := allocated(many)
	objects, bytes = (moreObjects-objects)/(many-few), (moreBytes-bytes)/(many-few)
	t.Logf("%.3f objects and %.0f bytes per message", objects, bytes)
	if size := float64(unsafe.Sizeof(engine.Message{})); objects > 0.25 || bytes > size {
		t.Errorf("%.3f objects and %.0f bytes per message, want far below one, and below the %v of a message",
			objects, bytes, size)
	}
}

func BenchmarkEngineTax(b *testing.B) {
	in := &block{b.N}
	plan, _ := runtime.Build(&engine.Pipeline{
		Inputs: Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
		Outputs: Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return in, nil })}),
		Processors: engine.Steps{{Use: Processing(processorFunc(func(context.Context, *engine.Batch) error {
			return nil
		}))}},
	}, runtime.Options{})
	b.ReportAllocs()
	b.ResetTimer()
	plan.Run(context.Background(), context.Background())
}
