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
	d := schema.NewDecoder(nil)
	for name, text := range p.Named {
		schema.Shared[engine.StepLists](d).Define(name, parse(t, text))
	}
	if p.Steps != "" {
		decode(t, d, p.Steps, &spec.Processors)
	}
	if p.Batch != "" {
		var b engine.BatcherSpec
		decode(t, d, `{"batch": {}, "output": "out", "processors": `+p.Batch+`}`, &b)
		spec.Batchers = enginetest.Named("all", b)
	}
	plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.DiscardHandler)})
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
	decode(t, schema.NewDecoder(nil), text, into)
}

func parse(t testing.TB, text string) *schema.Node {
	t.Helper()
	n, err := schema.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func decode(t testing.TB, d *schema.Decoder, text string, into any) {
	t.Helper()
	d.Decode(parse(t, text), into)
	for _, p := range d.Problems() {
		t.Fatalf("%s: %s", text, p)
	}
}
