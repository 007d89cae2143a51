package sqs

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
	"github.com/flowd-io/flowd/schema"
)

// bench is an input on the fake service, in virtual time.
type bench struct {
	*fakesqs.Server
	in  *input
	log enginetest.Transcript
}

// virtual runs a test in virtual time, with an input on the queue "orders" or another one.
func virtual(t *testing.T, queue fakesqs.Queue, edit func(*Config), f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Queue: "orders", Wait: 20 * time.Second, Max: 10, Delete: true,
			Lease: Lease{Renew: true, Max: longest}}
		if edit != nil {
			edit(&cfg)
		}
		b := &bench{Server: fakesqs.Start(t)}
		b.Create(cfg.Queue, queue)
		in, err := newInput(cfg, engine.Env{Log: slog.New(slog.NewTextHandler(&b.log, nil)), Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		b.in = in.(*input)
		b.in.http = b.Client()
		f(t, b)
		b.Client().CloseIdleConnections()
	})
}

// pipeline returns a pipeline from the input to dst.
func (b *bench) pipeline(dst *enginetest.Sink, steps ...engine.StepSpec) *engine.Pipeline {
	return &engine.Pipeline{
		Name: "test", Processors: steps, Outputs: enginetest.Named("out", dst.Output()),
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return b.in, nil })}),
		Engine: engine.EngineSpec{Workers: 4},
	}
}

// run runs a pipeline, and stops it after a while.
func (b *bench) run(t *testing.T, p *engine.Pipeline, d time.Duration) runtime.Report {
	t.Helper()
	stop, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(&b.log, nil))})
	if plan == nil {
		t.Fatal(problems)
	}
	rep := plan.Run(stop, context.Background())
	if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 {
		t.Errorf("roots do not add up: %+v", c)
	}
	return rep
}

// open opens the input. It is closed when the test ends.
func (b *bench) open(t *testing.T) {
	t.Helper()
	if err := b.in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.in.Close(context.Background()) })
}

// read calls Read once, and returns the messages.
func (b *bench) read(t *testing.T, room int) []*engine.Message {
	t.Helper()
	batch := engine.NewBatch(room)
	if _, err := b.in.Read(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	var all []*engine.Message
	for m := range batch.All() {
		all = append(all, m)
	}
	return all
}

func bodies(all []*engine.Message) (texts []string) {
	for _, m := range all {
		texts = append(texts, string(m.Bytes()))
	}
	return texts
}

func outputs(name string, dst *enginetest.Sink, other string, dlq *enginetest.Sink) schema.Map[engine.OutputSpec] {
	return schema.MapOf(schema.Entry[engine.OutputSpec]{Key: name, Value: dst.Output()},
		schema.Entry[engine.OutputSpec]{Key: other, Value: dlq.Output()})
}
