package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	_ "github.com/flowd-io/flowd/internal/state/caches"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/cache"
	_ "github.com/flowd-io/flowd/processors/dedupe"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/parallel"
	_ "github.com/flowd-io/flowd/processors/sleep"
	_ "github.com/flowd-io/flowd/processors/split"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

func TestEqualKeysAreDropped(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "one of each is left", Step: `{"dedupe": "id"}`, In: []string{`{"id":1}`, `{"id":0}`, `{"id":1}`,
			`{"id":0}`, `{"id":1}`}, Want: []string{`{"id":1}`, `{"id":0}`, "dropped", "dropped", "dropped"}},
		{Name: "text is not a number", Step: `{"dedupe": "id"}`, In: []string{`{"id":1}`, `{"id":"1"}`},
			Want: []string{`{"id":1}`, `{"id":"1"}`}},
		{Name: "a key has many forms", Step: `{"dedupe": "id"}`, In: []string{`{"id":[1,{"a":1,"b":2}]}`,
			`{"id":[1.0, {"b":2, "a":1}]}`}, Want: []string{`{"id":[1,{"a":1,"b":2}]}`, "dropped"}},
		{Name: "several fields", Step: `{"dedupe": "[a, b]"}`, In: []string{`{"a":1,"b":2}`, `{"a":2,"b":1}`,
			`{"a":1,"b":2}`}, Want: []string{`{"a":1,"b":2}`, `{"a":2,"b":1}`, "dropped"}},
		{Name: "long keys differ at the end", Step: `{"dedupe": "raw()"}`,
			In: []string{strings.Repeat("x", 1000) + "a", strings.Repeat("x", 1000) + "b", strings.Repeat("x", 1000) +
				"a"}, Want: []string{strings.Repeat("x", 1000) + "a", strings.Repeat("x", 1000) + "b", "dropped"}},
		{Name: "nil is no key", Step: `{"dedupe": "id"}`, In: []string{`{}`, `{"id":null}`, `{}`},
			Want: []string{`{}`, `{"id":null}`, `{}`}},
		{Name: "a key that fails", Step: `{"dedupe": "id + 1"}`, In: []string{`{"id":"x"}`, `{"id":1}`},
			Want: []string{`{"id":1}`, `failed expression: `}},
		{Name: "no document", Step: `{"dedupe": "id"}`, In: []string{`nope`}, Want: []string{`failed decode: `}},
	})
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no key", Step: `{"dedupe": {"window": "1m"}}`, Want: "required"},
		{Name: "no window", Step: `{"dedupe": {"key": "id", "window": "0s"}}`, Want: "window"},
		{Name: "two limits", Step: `{"dedupe": {"key": "id", "cache": "c", "max_keys": 5}}`,
			Want: "set it in the cache"},
		{Name: "a word of a peer", Step: `{"dedupe": {"key": "id", "ttl": "1m"}}`, Want: "write `window`"},
	})
}

func TestDedupeConforms(t *testing.T) {
	steptest.Conforms(t, `{"dedupe": "id"}`, `{"id":1}`, `{"id":2}`)
}

// pipeline has a source, steps as JSON, and a sink.
type pipeline struct {
	steps, batcher string
	src            engine.Input
	sink           *enginetest.Sink
	dead           *enginetest.Sink
	caches         map[string]string
	workers        int
	attempts       int // 0: one
}

func (p *pipeline) run(t testing.TB, stop context.Context) runtime.Report {
	t.Helper()
	spec := &engine.Pipeline{
		Name: "test",
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return p.src, nil })}),
		Engine: engine.EngineSpec{Workers: max(1, p.workers)},
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
	o := runtime.Options{Log: slog.New(slog.DiscardHandler), Caches: map[string]engine.Plugin[engine.Cache]{}}
	for name, text := range p.caches {
		var c struct {
			Use engine.Plugin[engine.Cache] `yaml:",variant"`
		}
		steptest.Decode(t, text, &c)
		o.Caches[name] = c.Use
	}
	plan, problems := runtime.Build(spec, o)
	if plan == nil {
		t.Fatal(problems)
	}
	rep := plan.Run(stop, context.Background())
	if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 || rep.Err != nil {
		t.Errorf("%+v", rep)
	}
	return rep
}

var errScripted = errors.New("scripted")

// failFirst fails the first n writes of a message.
func failFirst(n int) func(string) error {
	return func(string) error {
		if n--; n >= 0 {
			return errScripted
		}
		return nil
	}
}

func TestWhatComesOfAKeyIsDecidedByItsMessage(t *testing.T) {
	tests := []struct {
		name  string
		p     pipeline
		in    []string
		fates []string
		out   []string
	}{
		{
			"a message that fails and comes again is no duplicate",
			pipeline{steps: `[{"dedupe": "id"}]`, sink: &enginetest.Sink{Fail: failFirst(1)}},
			[]string{`{"id":1}`},
			[]string{`{"id":1} returned`, `{"id":1} delivered`},
			[]string{`{"id":1}`},
		},
		{
			"an equal one waits while a write is tried again",
			pipeline{steps: `[{"dedupe": "id"}]`, sink: &enginetest.Sink{Fail: failFirst(2)}, attempts: 3},
			[]string{`{"id":1,"n":1}`, `{"id":1,"n":2}`},
			[]string{`{"id":1,"n":1} delivered`, `{"id":1,"n":2} filtered`},
			[]string{`{"id":1,"n":1}`},
		},
		{
			"an equal one that comes meanwhile waits, and is dropped when the first is delivered",
			pipeline{steps: `[{"dedupe": "id"}]`, sink: &enginetest.Sink{Delay: time.Second}},
			[]string{`{"id":1,"n":1}`, `{"id":1,"n":2}`, `{"id":1,"n":3}`},
			[]string{`{"id":1,"n":1} delivered`, `{"id":1,"n":2} filtered`, `{"id":1,"n":3} filtered`},
			[]string{`{"id":1,"n":1}`},
		},
		{
			"the next one takes the place of one that failed",
			pipeline{steps: `[{"dedupe": "id"}]`, sink: &enginetest.Sink{Delay: time.Second, Fail: failFirst(2)}},
			[]string{`{"id":1,"n":1}`, `{"id":1,"n":2}`, `{"id":1,"n":3}`},
			[]string{`{"id":1,"n":1} returned`, `{"id":1,"n":2} returned`, `{"id":1,"n":3} delivered`,
				`{"id":1,"n":1} filtered`, `{"id":1,"n":2} filtered`},
			[]string{`{"id":1,"n":3}`},
		},
		{
			"a dead letter has failed: what waits goes on, and it may come again",
			pipeline{steps: `[{"dedupe": "id"}]`, sink: &enginetest.Sink{Delay: time.Second, Fail: failFirst(1)},
				dead: &enginetest.Sink{}},
			[]string{`{"id":1,"n":1}`, `{"id":1,"n":2}`, `{"id":1,"n":3}`},
			[]string{`{"id":1,"n":1} dead_lettered`, `{"id":1,"n":2} delivered`, `{"id":1,"n":3} filtered`},
			[]string{`{"id":1,"n":2}`},
		},
		{
			"what a later step drops counts",
			pipeline{steps: `[{"dedupe": "id"}, {"dedupe": "all"}]`, sink: &enginetest.Sink{Delay: time.Second}},
			[]string{`{"id":1,"all":0}`, `{"id":2,"all":0}`, `{"id":2,"all":1}`},
			[]string{`{"id":1,"all":0} delivered`, `{"id":2,"all":0} filtered`, `{"id":2,"all":1} filtered`},
			[]string{`{"id":1,"all":0}`},
		},
		{
			"parts of one message do not wait for each other",
			pipeline{steps: `[{"split": "list"}, {"dedupe": "this"}]`, sink: &enginetest.Sink{}},
			[]string{`{"list":[1,2,1,1]}`},
			[]string{`{"list":[1,2,1,1]} delivered`},
			[]string{"1", "2"},
		},
		{
			"elements have the fate of the whole",
			pipeline{steps: `[{"each": {"in": "list", "do": [{"dedupe": "this"}]}}]`,
				sink: &enginetest.Sink{Fail: failFirst(1)}},
			[]string{`{"list":[1,2,1]}`},
			[]string{`{"list":[1,2,1]} returned`, `{"list":[1,2,1]} delivered`},
			[]string{`{"list":[1,2]}`},
		},
		{
			"a cache takes the place of the step's memory",
			pipeline{steps: `[{"dedupe": {"key": "id", "cache": "seen"}}]`, sink: &enginetest.Sink{Delay: time.Second,
				Fail: failFirst(1)}, caches: map[string]string{"seen": `{"memory": {}}`}},
			[]string{`{"id":1,"n":1}`, `{"id":1,"n":2}`},
			[]string{`{"id":1,"n":1} returned`, `{"id":1,"n":2} delivered`, `{"id":1,"n":1} filtered`},
			[]string{`{"id":1,"n":2}`},
		},
		{
			"a key waits for a batch, which its timeout sends",
			pipeline{steps: `[{"dedupe": "id"}]`, sink: &enginetest.Sink{},
				batcher: `{"batch": {"size": 100, "timeout": "5s"}, "output": "out"}`},
			[]string{`{"id":1,"n":1}`, `{"id":1,"n":2}`},
			[]string{`{"id":1,"n":1} delivered`, `{"id":1,"n":2} filtered`},
			[]string{`{"id":1,"n":1}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := steptest.NewBroker(tt.in...)
				tt.p.src = src
				tt.p.run(t, t.Context())
				slices.Sort(src.Fates[max(0, len(src.Fates)-2):]) // the last ones end at once, in any order
				slices.Sort(tt.fates[max(0, len(tt.fates)-2):])
				if diff := cmp.Diff(tt.fates, src.Fates); diff != "" {
					t.Errorf("fates (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.out, tt.p.sink.Bodies()); diff != "" {
					t.Errorf("delivered (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAStepThatStartsOverForgetsTheKeysOfItsElements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := steptest.NewBroker(`{"list":[1,2,1]}`)
		p := pipeline{src: src, sink: &enginetest.Sink{}, attempts: 3, steps: `[{"each": {"in": "list", "do": [
			{"dedupe": "this"}, {"sleep": "1m", "timeout": "1s", "when": "counter(\"n\") <= 1"}]}}]`}
		p.run(t, t.Context())
		if diff := cmp.Diff([]string{`{"list":[1,2]}`}, p.sink.Bodies()); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
	})
}

func TestAKeyIsForgottenAfterItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &enginetest.Source{Payloads: slices.Repeat([]string{`{"id":1}`}, 13), PerRead: 1,
			Every: 10 * time.Second}
		p := pipeline{steps: `[{"dedupe": {"key": "id", "window": "1m"}}]`, src: src, sink: &enginetest.Sink{}}
		p.run(t, t.Context())
		if got := len(p.sink.Bodies()); got != 3 { // after 10, 70 and 130 seconds
			t.Errorf("%d delivered, want 3", got)
		}
	})
}

func TestTheOldestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &enginetest.Source{Payloads: []string{"1", "2", "3", "1", "3"}, PerRead: 1, Every: time.Second}
		p := pipeline{steps: `[{"dedupe": {"key": "this", "max_keys": 2}}]`, src: src, sink: &enginetest.Sink{}}
		p.run(t, t.Context())
		if diff := cmp.Diff([]string{"1", "2", "3", "1"}, p.sink.Bodies()); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
	})
}

func TestADrainHandsBackWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := steptest.NewBroker(`{"id":1,"n":1}`, `{"id":1,"n":2}`)
		src.Again = false
		p := pipeline{steps: `[{"dedupe": "id"}]`, src: src, sink: &enginetest.Sink{Block: make(chan struct{})}}
		stop, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.run(t, stop)
		slices.Sort(src.Fates)
		if diff := cmp.Diff([]string{`{"id":1,"n":1} returned`, `{"id":1,"n":2} returned`}, src.Fates); diff != "" {
			t.Errorf("fates (-want +got):\n%s", diff)
		}
	})
}

func TestMessagesWaitInTheStepsOfABatcherToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := steptest.NewBroker(`{"id":1,"n":1}`, `{"id":1,"n":2}`, `{"id":2,"n":3}`)
		p := pipeline{src: src, sink: &enginetest.Sink{Delay: time.Second}, steps: `[]`,
			batcher: `{"batch": {"size": 3}, "output": "out", "processors": [{"dedupe": "id"}]}`}
		p.run(t, t.Context())
		slices.Sort(src.Fates)
		if diff := cmp.Diff([]string{`{"id":1,"n":1} delivered`, `{"id":1,"n":2} filtered`, `{"id":2,"n":3} delivered`},
			src.Fates); diff != "" {
			t.Errorf("fates (-want +got):\n%s", diff)
		}
	})
}

func TestWhereNothingCanWaitTheEngineSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := steptest.NewBroker(`{"id":1,"n":1}`, `{"id":1,"n":2}`, `{"id":2,"n":3}`)
		src.Again = false
		p := pipeline{src: src, sink: &enginetest.Sink{Delay: time.Second},
			steps: `[{"parallel": {"do": [{"dedupe": "id"}]}}]`}
		rep := p.run(t, t.Context())
		if len(rep.Failures) != 1 || !strings.Contains(rep.Failures[0].First.Message,
			"a step that makes messages wait is not allowed inside another step") {
			t.Errorf("%+v", rep.Failures)
		}
		slices.Sort(src.Fates)
		if diff := cmp.Diff([]string{`{"id":1,"n":1} delivered`, `{"id":1,"n":2} returned`, `{"id":2,"n":3} delivered`},
			src.Fates); diff != "" {
			t.Errorf("fates (-want +got):\n%s", diff)
		}
	})
}

// TestOneOfEachIsDelivered lets split messages with shared keys fail repeatedly, on many lanes.
func TestOneOfEachIsDelivered(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 2))
		var in []string
		want := map[string]bool{}
		for range 300 {
			list := make([]string, 1+r.IntN(5))
			for i := range list {
				list[i] = fmt.Sprint(r.IntN(60))
				want[list[i]] = true
			}
			in = append(in, fmt.Sprintf(`{"list":[%s]}`, strings.Join(list, ",")))
		}
		var mu sync.Mutex
		left := 400
		src := steptest.NewBroker(in...)
		sink := &enginetest.Sink{Fail: func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if left > 0 && r.IntN(2) == 0 {
				left--
				return errScripted
			}
			return nil
		}}
		steps := []string{
			`[{"split": "list"}, {"dedupe": "this"}]`,
			`[{"split": "list"}, {"dedupe": {"key": "this", "cache": "seen"}}]`,
			// Here messages wait for each other in circles: one for an even number, the other for an odd one.
			`[{"split": "list"}, {"dedupe": {"key": "this", "cache": "seen"}, "when": "this % 2 == 0"}, {"dedupe": {"key": "this", "cache": ` +
				`"seen"}, "when": "this % 2 == 1"}]`,
		}[seed%3]
		p := pipeline{workers: 4, steps: steps, src: src, sink: sink,
			caches: map[string]string{"seen": `{"memory": {}}`}}
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		p.run(t, stop)
		cancel()
		got := map[string]int{}
		for _, b := range sink.Bodies() {
			got[b]++
		}
		for key := range want {
			if got[key] == 0 {
				t.Errorf("seed %d: %s was never delivered", seed, key)
			}
		}
		if src.Stuck() > 0 {
			t.Fatalf("seed %d: %d messages wait for ever", seed, src.Stuck())
		}
	}
}

func TestKeysWaitForTheirCache(t *testing.T) {
	var in []string
	for i := range 300 {
		in = append(in, fmt.Sprintf(`{"id":%d}`, i))
	}
	steptest.Outages(t, `[{"dedupe": {"key": "id", "cache": "c"}}]`, in,
		func(c engine.Cache, acknowledged []string) error {
			for _, payload := range acknowledged {
				if _, ok, err := c.Get(context.Background(), payload[6:len(payload)-1]); err != nil || !ok {
					return fmt.Errorf("%s is not in the cache (%w)", payload, err)
				}
			}
			return nil
		})
}
