package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	goruntime "runtime"
	"strconv"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	_ "github.com/flowd-io/flowd/inputs"
	"github.com/flowd-io/flowd/internal/operations/headroom"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
	"github.com/flowd-io/flowd/schema"
)

// shared is an input and an output that cost almost nothing: all messages share their bytes.
type shared struct{ left int }

var payload = []byte(`{"n":1}`)

func (s *shared) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.left == 0 {
		return s, engine.ErrEnd
	}
	for ; s.left > 0 && b.Room() > 0; s.left-- {
		b.Add(payload)
	}
	return s, nil
}

func (s *shared) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

func (s *shared) Ack(context.Context, []engine.Result) ([]engine.Result, error) { return nil, nil }

func (s *shared) Write(context.Context, *engine.Batch) error { return nil }

// identity runs args[0] messages through the engine, with one step that does nothing, and with
// acks. It prints how many were delivered, and the CPU time in nanoseconds.
func identity(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	headroom.Set(64 << 20) // as the flowd command does
	s := &shared{n}
	plan, problems := runtime.Build(&engine.Pipeline{
		Inputs: schema.MapOf(schema.Entry[engine.InputSpec]{Key: "in",
			Value: engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return s, nil })}}),
		Outputs: schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out",
			Value: engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return s, nil })}}),
		Processors: engine.Steps{{Name: "identity", Use: engine.Use(func(engine.Env) (engine.Processor, error) {
			return engine.ProcessorFunc(func(context.Context, *engine.Message) error { return nil }), nil
		})}},
	}, runtime.Options{Log: slog.New(slog.DiscardHandler)})
	if plan == nil {
		return fmt.Errorf("%v", problems)
	}
	began := ownCPU()
	rep := plan.Run(context.Background(), context.Background())
	fmt.Fprintln(os.Stderr, rep.Stats.Roots.Ended[engine.Delivered], (ownCPU() - began).Nanoseconds())
	return nil
}

// allocations runs the pipeline file args[0] in this process and prints how many heap objects
// were allocated.
func allocations(args []string) error {
	set, problems := config.Load(args[:1], config.Options{Log: slog.New(slog.DiscardHandler)})
	for _, p := range problems {
		return fmt.Errorf("%v", p)
	}
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	rep := set.Pipelines[0].Plan.Run(context.Background(), context.Background())
	goruntime.ReadMemStats(&after)
	if rep.Code() != 0 {
		return fmt.Errorf("run: %+v", rep)
	}
	fmt.Fprintln(os.Stderr, after.Mallocs-before.Mallocs)
	return nil
}
