package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	_ "github.com/flowd-io/flowd/internal/state/caches"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/cache"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/split"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// rig is a pipeline with a memory cache "c".
type rig struct {
	steps string // as JSON
	in    []string
	fail  func(body string) error // decides which writes fail
	every time.Duration           // between messages
}

type outcome struct {
	bodies []string // delivered
	fates  []string // fates of the messages, in read order
	report runtime.Report
}

func (r rig) run(t *testing.T) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		src := &enginetest.Source{Payloads: r.in, Takes: engine.TakesOne, PerRead: 1, Every: max(r.every, 1)}
		sink := &enginetest.Sink{Fail: r.fail, Delay: time.Second}
		spec := &engine.Pipeline{
			Name: "test", Inputs: enginetest.Named("in", src.Input()), Engine: engine.EngineSpec{Workers: 1},
			Outputs: schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: sink.Output()}),
		}
		steptest.Decode(t, r.steps, &spec.Processors)
		plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.DiscardHandler),
			Caches: map[string]engine.Plugin[engine.Cache]{
				"c": memory(t),
			}})
		if plan == nil {
			t.Fatal(problems)
		}
		o.report = plan.Run(t.Context(), t.Context())
		o.bodies = sink.Bodies()
		for _, p := range r.in {
			o.fates = append(o.fates, src.Results()[p].Fate.String())
		}
	})
	return o
}

func memory(t *testing.T) engine.Plugin[engine.Cache] {
	var c struct {
		Use engine.Plugin[engine.Cache] `yaml:",variant"`
	}
	steptest.Decode(t, `{"memory": {}}`, &c)
	return c.Use
}

// failAll fails every message that contains a text.
func failAll(text string) func(string) error {
	return func(body string) error {
		if strings.Contains(body, text) {
			return errors.New("scripted")
		}
		return nil
	}
}

func TestCache(t *testing.T) {
	tests := []struct {
		name string
		rig  rig
		want []string // delivered
	}{
		{
			"what is set can be got, as it was written",
			rig{steps: `[{"cache": {"set": "c", "key": "id", "value": "v"}}, {"cache": {"get": "c", "key": "id", "into": "got"}}]`,
				in: []string{`{"id":"a","v":{"n": 1.10}}`}},
			[]string{`{"id":"a","v":{"n": 1.10},"got":{"n": 1.10}}`},
		},
		{
			"a value may become the document",
			rig{steps: `[{"cache": {"set": "c", "key": "id", "value": "v"}}, {"cache": {"get": "c", "key": "id", "into": "this"}}]`,
				in: []string{`{"id":"a","v":{"n": 1.10}}`}},
			[]string{`{"n": 1.10}`},
		},
		{
			"the value of nothing is null",
			rig{steps: `[{"cache": {"get": "c", "key": "id", "into": "got"}}]`, in: []string{`{"id":"a"}`}},
			[]string{`{"id":"a","got":null}`},
		},
		{
			"a value that is missing is null",
			rig{steps: `[{"cache": {"set": "c", "key": "id", "value": "v"}}, {"cache": {"get": "c", "key": "id", "into": "got"}}]`,
				in: []string{`{"id":"a"}`}},
			[]string{`{"id":"a","got":null}`},
		},
		{
			"a value may be computed",
			rig{steps: `[{"cache": {"set": "c", "key": "id", "value": "n + 1"}}, {"cache": {"get": "c", "key": "id", "into": "got"}}]`,
				in: []string{`{"id":"a","n":1}`}},
			[]string{`{"id":"a","n":1,"got":2}`},
		},
		{
			"of two adds of one key the second is told, and goes on",
			rig{steps: `[{"cache": {"add": "c", "key": "id", "into": "new"}}]`,
				in: []string{`{"id":"a","n":1}`, `{"id":"a","n":2}`}},
			[]string{`{"id":"a","n":1,"new":true}`, `{"id":"a","n":2,"new":false}`},
		},
		{
			"an add does not replace a value",
			rig{steps: `[{"cache": {"add": "c", "key": "id", "value": "n"}}, {"cache": {"get": "c", "key": "id", "into": "got"}}]`,
				in: []string{`{"id":"a","n":1}`, `{"id":"a","n":2}`}, every: time.Minute},
			[]string{`{"id":"a","n":1,"got":1}`, `{"id":"a","n":2,"got":1}`},
		},
		{
			"what is deleted is gone",
			rig{steps: `[{"cache": {"set": "c", "key": "id", "value": "this"}}, {"cache": {"delete": "c", "key": "id"}}, {"cache": {"get": "c", ` +
				`"key": "id", "into": "got"}}]`, in: []string{`{"id":"a"}`}},
			[]string{`{"id":"a","got":null}`},
		},
		{
			"later messages see what is pending",
			rig{steps: `[{"cache": {"get": "c", "key": "id", "into": "before"}}, {"cache": {"set": "c", "key": "id", "value": "n"}}]`,
				in: []string{`{"id":"a","n":1}`, `{"id":"a","n":2}`}},
			[]string{`{"id":"a","n":1,"before":null}`, `{"id":"a","n":2,"before":1}`},
		},
		{
			"a key is text, or JSON",
			rig{steps: `[{"cache": {"add": "c", "key": "id", "into": "new"}}]`,
				in: []string{`{"id":"[1]"}`, `{"id":[1]}`, `{"id":[2]}`}},
			[]string{`{"id":[2],"new":true}`, `{"id":"[1]","new":true}`, `{"id":[1],"new":false}`},
		},
		{
			"parts of one message see each other's keys",
			rig{steps: `[{"split": "list"}, {"cache": {"add": "c", "key": "id", "into": "new"}}]`,
				in: []string{`{"list":[{"id":1},{"id":1}]}`}},
			[]string{`{"id":1,"new":true}`, `{"id":1,"new":false}`},
		},
		{
			"elements see each other's keys",
			rig{steps: `[{"each": {"in": "list", "do": [{"cache": {"add": "c", "key": "id", "into": "new"}}, {"filter": "new"}]}}]`,
				in: []string{`{"list":[{"id":1},{"id":1},{"id":2}]}`}},
			[]string{`{"list":[{"id":1,"new":true},{"id":2,"new":true}]}`},
		},
		{
			"a value has a time",
			rig{steps: `[{"cache": {"add": "c", "key": "id", "ttl": "90s", "into": "new"}}]`,
				in: []string{`{"id":1,"n":1}`, `{"id":1,"n":2}`, `{"id":1,"n":3}`}, every: time.Minute},
			[]string{`{"id":1,"n":1,"new":true}`, `{"id":1,"n":2,"new":false}`, `{"id":1,"n":3,"new":true}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.rig.run(t).bodies
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("delivered (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWritesOfMessagesThatFailAreForgotten(t *testing.T) {
	for _, step := range []string{`{"set": "c", "key": "id", "value": "n"}`,
		`{"add": "c", "key": "id", "value": "n"}`} {
		o := rig{
			steps: `[{"cache": {"get": "c", "key": "id", "into": "before"}}, {"cache": ` + step + `}]`,
			in:    []string{`{"id":"a","n":1}`, `{"id":"a","n":2}`, `{"id":"a","n":3}`},
			every: time.Minute, fail: failAll(`"n":1`),
		}.run(t)
		if diff := cmp.Diff([]string{`{"id":"a","n":2,"before":null}`, `{"id":"a","n":3,"before":2}`},
			o.bodies); diff != "" {
			t.Errorf("%s: delivered (-want +got):\n%s", step, diff)
		}
	}
}

func TestAnInvalidKeyFailsItsMessage(t *testing.T) {
	for in, want := range map[string]string{`{}`: "the key id is nil", `{"id":""}`: "the key id is empty", `nope`: "",
		`{"id":1}`: "value v"} {
		step := `{"set": "c", "key": "id", "value": "v + 1"}`
		o := rig{steps: `[{"cache": ` + step + `}]`, in: []string{in}}.run(t)
		if o.fates[0] != "returned" {
			t.Errorf("%s: %s", in, o.fates[0])
		}
		if len(o.report.Failures) != 1 || !strings.Contains(o.report.Failures[0].First.Message,
			strings.TrimPrefix(want, "value ")) {
			t.Errorf("%s: %+v, want %q", in, o.report.Failures, want)
		}
	}
}

func TestMistakesInACacheStepAreRefused(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no cache", Step: `{"cache": {"key": "id"}}`, Want: "write one of `get: CACHE`"},
		{Name: "two caches", Step: `{"cache": {"get": "a", "add": "b", "key": "id", "into": "x"}}`,
			Want: "get and add exclude each other"},
		{Name: "no key", Step: `{"cache": {"get": "a", "into": "x"}}`, Want: "key: required"},
		{Name: "a get that puts its value nowhere", Step: `{"cache": {"get": "a", "key": "id"}}`,
			Want: "into: required"},
		{Name: "a set of nothing", Step: `{"cache": {"set": "a", "key": "id"}}`, Want: "value: required"},
		{Name: "a get with a value", Step: `{"cache": {"get": "a", "key": "id", "into": "x", "value": "1"}}`,
			Want: "get writes no value"},
		{Name: "a delete with a time", Step: `{"cache": {"delete": "a", "key": "id", "ttl": "1m"}}`, Want: "ttl"},
		{Name: "a set with a result", Step: `{"cache": {"set": "a", "key": "id", "value": "1", "into": "x"}}`,
			Want: "set has no result"},
		{Name: "words of a peer", Step: `{"cache": {"resource": "a", "operator": "get", "key": "id"}}`,
			Want: "write it as a key: `get: CACHE`"},
		{Name: "a cache outside of pipelines", Step: `{"cache": {"get": "a", "key": "id", "into": "x"}}`,
			Want: `there is no cache "a"`},
	})
}

func TestValuesWaitForTheirCache(t *testing.T) {
	var in []string
	for i := range 300 {
		in = append(in, fmt.Sprintf(`{"id":"i%d"}`, i))
	}
	steptest.Outages(t, `[{"cache": {"get": "c", "key": "id", "into": "before"}}, {"cache": {"set": "c", "key": "id", "value": "1"}}]`, in,
		func(c engine.Cache, acknowledged []string) error {
			for _, payload := range acknowledged {
				if _, ok, err := c.Get(context.Background(), payload[7:len(payload)-2]); err != nil || !ok {
					return fmt.Errorf("%s is not in the cache (%w)", payload, err)
				}
			}
			return nil
		})
}
