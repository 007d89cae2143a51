// Package enginetest helps to test plugins and pipelines. It builds plugins from configuration ([New]), runs them as the
// engine does ([Apply], [Run]), and has a scripted [Source] and [Sink].
//
// Every plugin should pass the conformance suite of its kind: [Input], [Processor], [Batcher] or [Output]. There are further
// suites for inputs that read from servers ([RemoteInput]), and for outputs to servers ([Remote]) and files ([FileOutput]).
package enginetest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// New builds a plugin from a component written as JSON, such as
// {"filter": "status >= 500"}, and fails the test on any problem.
func New[T any](t testing.TB, r *engine.Registry[T], component string) T {
	t.Helper()
	plugin, problems := build(t, r, component)
	for _, p := range problems {
		t.Fatalf("%s: %s", component, p)
	}
	return plugin
}

// Problems returns the problems of decoding and building a component that is written as JSON.
func Problems[T any](t testing.TB, r *engine.Registry[T], component string) []string {
	t.Helper()
	_, problems := build(t, r, component)
	return problems
}

// component is a plugin without the common keys of its kind.
type component[T any] struct {
	Use engine.Plugin[T] `yaml:",variant"`
}

func build[T any](t testing.TB, _ *engine.Registry[T], text string) (plugin T, problems []string) {
	t.Helper()
	use, secrets, problems := specOf[T](t, text)
	if len(problems) > 0 {
		return plugin, problems
	}
	env := Env()
	env.Secrets = secrets
	plugin, err := use.Build(env)
	if err != nil {
		problems = append(problems, err.Error())
	}
	return plugin, problems
}

// specOf decodes a component written as JSON.
func specOf[T any](t testing.TB, text string) (use engine.Plugin[T], secrets *schema.Secrets, problems []string) {
	t.Helper()
	n, err := schema.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	d := schema.NewDecoder(nil)
	var c component[T]
	d.Decode(n, &c)
	for _, p := range d.Problems() {
		problems = append(problems, p.String())
	}
	return c.Use, d.Secrets(), problems
}

// Env returns an environment for a plugin under test.
func Env() engine.Env {
	return engine.Env{Log: slog.New(slog.DiscardHandler), Name: "test", Instances: 1, Shared: &engine.Shared{}}
}

// Outcome is what has become of a message.
type Outcome struct {
	Body string
	Meta map[string]any
	Fate string        // "live", "dropped" or "failed"
	Err  *engine.Error // of a failed one
}

// Apply runs p over one batch of payloads as the engine does, including splits and merges. It returns the outcomes: live
// messages in order, then those that have ended.
func Apply(t testing.TB, p engine.Processor, payloads ...string) []Outcome {
	t.Helper()
	b := Batch(payloads...)
	if err := runtime.NewRunner(p).Run(context.Background(), b); err != nil {
		t.Fatalf("run: %v", err)
	}
	var all []Outcome
	for m := range b.All() {
		all = append(all, Outcome{string(m.Bytes()), m.Meta.Map(), "live", nil})
	}
	for m := range b.Ended() {
		fate := "dropped"
		if m.Err() != nil {
			fate = "failed"
		}
		all = append(all, Outcome{string(m.Bytes()), m.Meta.Map(), fate, m.Err()})
	}
	return all
}

// Batch makes a batch with a message for each payload.
func Batch(payloads ...string) *engine.Batch {
	b := engine.NewBatch(len(payloads))
	for _, p := range payloads {
		b.Add([]byte(p))
	}
	return b
}

// Failures runs one Write of the payloads and returns why messages failed.
func Failures(t testing.TB, o engine.Output, payloads ...string) (failed []*engine.Error) {
	t.Helper()
	b := Batch(payloads...)
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatalf("write: %v", err)
	}
	for m := range b.Ended() {
		if m.Err() != nil {
			failed = append(failed, m.Err())
		}
	}
	return failed
}

// Written runs one Write of the payloads. It returns its error and the fate of each message; see [WriteFates].
func Written(t testing.TB, o engine.Output, payloads ...string) (fates []string, err error) {
	t.Helper()
	b := Batch(payloads...)
	err = o.Write(t.Context(), b)
	return WriteFates(b, err), err
}
