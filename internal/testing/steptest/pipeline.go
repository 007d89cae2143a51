package steptest

import (
	"log/slog"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Pipeline is one source, steps, and one sink, for steps that only a plan can
// carry out.
type Pipeline struct {
	Steps string            // of all messages, as JSON
	Batch string            // of the one batch of all messages, as JSON; "" means no batcher
	Named map[string]string // resources.steps, as JSON
	In    []string          // payloads
}

// Run runs the pipeline and returns the bodies that were delivered, in order,
// and the failures, each as "CLASS: TEXT". What can't be built is a failure too.
func (p Pipeline) Run(t *testing.T) (bodies, failures []string) {
	t.Helper()
	src, sink := &enginetest.Source{Payloads: p.In}, &enginetest.Sink{}
	spec := &engine.Pipeline{
		Name:    "test",
		Inputs:  enginetest.Named("in", src.Input()),
		Outputs: enginetest.Named("out", sink.Output()),
		Engine:  engine.EngineSpec{Workers: 1},
	}
	if p.Steps != "" {
		Decode(t, p.Steps, &spec.Processors)
	}
	if p.Batch != "" {
		var b engine.BatcherSpec
		Decode(t, `{"batch": {}, "output": "out", "processors": `+p.Batch+`}`, &b)
		spec.Batchers = enginetest.Named("all", b)
	}
	named := map[string]engine.Steps{}
	for name, text := range p.Named {
		var s engine.Steps
		Decode(t, text, &s)
		named[name] = s
	}
	plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.DiscardHandler), Steps: named})
	if plan == nil {
		for _, problem := range problems {
			failures = append(failures, problem.String())
		}
		return nil, failures
	}
	report := plan.Run(t.Context(), t.Context())
	if report.Err != nil {
		t.Fatal(report.Err)
	}
	for _, f := range report.Failures {
		failures = append(failures, string(f.First.Class)+": "+f.First.Message)
	}
	return sink.Bodies(), failures
}

// Decode reads text, JSON, into what it configures.
func Decode(t testing.TB, text string, into any) {
	t.Helper()
	n, err := schema.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	d := schema.NewDecoder(nil)
	d.Decode(n, into)
	for _, p := range d.Problems() {
		t.Fatalf("%s: %s", text, p)
	}
}
