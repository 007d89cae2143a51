package state_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	_ "github.com/flowd-io/flowd/internal/state/caches"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/map"
	_ "github.com/flowd-io/flowd/processors/split"
	"github.com/flowd-io/flowd/schema"
)

func want[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got)+len(want) > 0 {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// pipeline has a source, steps as JSON, and a sink.
type pipeline struct {
	steps, batcher, orderBy string
	src                     engine.Input
	sink, dead              *enginetest.Sink
	cache                   engine.Cache // "c"
	workers, attempts       int          // 0: one
	room                    int          // maximum number of messages in flight; 0: the default
}

func (p *pipeline) run(t testing.TB, stop context.Context) runtime.Report {
	t.Helper()
	spec := &engine.Pipeline{
		Name: "test",
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return p.src, nil })}),
		Engine: engine.EngineSpec{Workers: max(1, p.workers)},
	}
	spec.Engine.MaxInFlight.Messages = p.room
	if p.orderBy != "" {
		spec.Engine.OrderBy = expr.MustCompile(p.orderBy)
	}
	spec.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: max(1, p.attempts)}
	steptest.Decode(t, p.steps, &spec.Processors)
	outputs := []schema.Entry[engine.OutputSpec]{{Key: "out", Value: p.sink.Output()}}
	if p.dead != nil {
		outputs = append(outputs, schema.Entry[engine.OutputSpec]{Key: "dead", Value: p.dead.Output()})
		spec.Engine.OnFailure.DeadLetter = "dead"
	}
	spec.Outputs = schema.MapOf(outputs...)
	if p.batcher != "" {
		var b engine.BatcherSpec
		steptest.Decode(t, p.batcher, &b)
		spec.Batchers = enginetest.Named("all", b)
	}
	o := runtime.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if p.cache != nil {
		o.Caches = map[string]engine.Plugin[engine.Cache]{
			"c": engine.Use(func(engine.Env) (engine.Cache, error) { return p.cache, nil })}
	}
	plan, problems := runtime.Build(spec, o)
	if plan == nil {
		t.Fatal(problems)
	}
	rep := plan.Run(stop, context.Background())
	if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 {
		t.Errorf("%+v", rep)
	}
	return rep
}

var errScripted = errors.New("scripted")

// failing fails the first n writes of messages that contain a text.
func failing(n int, text string) func(string) error {
	return func(body string) error {
		if contains(body, text) {
			if n--; n >= 0 {
				return errScripted
			}
		}
		return nil
	}
}
