package ratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/rate_limit"
	_ "github.com/flowd-io/flowd/processors/steps"
	_ "github.com/flowd-io/flowd/processors/switch"
	"github.com/google/go-cmp/cmp"
)

// arrival is a message that has passed, with the time.
type arrival struct {
	Body string
	At   time.Duration
}

// flow is a running pipeline with one rate_limit step.
type flow struct {
	steps string // as JSON
	src   *enginetest.Source
	sink  enginetest.Sink
}

func newFlow(steps string, payloads ...string) *flow {
	return &flow{steps: steps, src: &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne}}
}

// build makes the plan; problems fail the test.
func (f *flow) build(t *testing.T, o runtime.Options) *runtime.Plan {
	t.Helper()
	spec := &engine.Pipeline{
		Name:       "test",
		Inputs:     enginetest.Named("in", f.src.Input()),
		Processors: steps(t, f.steps),
		Outputs:    enginetest.Named("out", f.sink.Output()),
		Engine:     engine.EngineSpec{Workers: 1},
	}
	plan, problems := runtime.Build(spec, o)
	for _, p := range problems {
		t.Fatal(p)
	}
	return plan
}

func steps(t *testing.T, text string) (s engine.Steps) {
	t.Helper()
	steptest.Decode(t, text, &s)
	return s
}

// run runs the pipeline to its end, and returns the messages that have passed, in order of time.
func (f *flow) run(t *testing.T, o runtime.Options) []arrival {
	t.Helper()
	start := time.Now()
	f.finish(t, f.build(t, o))
	return f.arrivals(start)
}

func (f *flow) finish(t *testing.T, plan *runtime.Plan) {
	report := plan.Run(context.Background(), context.Background())
	if c := report.Stats.Roots; report.Err != nil || !c.Balanced() || c.InFlight != 0 {
		t.Errorf("error %v, roots %+v", report.Err, c)
	}
}

func (f *flow) arrivals(start time.Time) (all []arrival) {
	for _, w := range f.sink.Writes() {
		for _, body := range w.Bodies {
			all = append(all, arrival{body, w.At.Sub(start)})
		}
	}
	return all
}

// counts returns how many messages have passed at each time.
func counts(all []arrival) map[time.Duration]int {
	n := map[time.Duration]int{}
	for _, a := range all {
		n[a.At]++
	}
	return n
}

func numbered(format string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

func TestMessagesPassAtTheRate(t *testing.T) {
	tests := []struct {
		name string
		step string
		n    int
		want map[time.Duration]int
	}{
		{"a window", `[{"rate_limit": {"messages": 100, "per": "1s"}}]`, 250,
			map[time.Duration]int{0: 100, time.Second: 100, 2 * time.Second: 50}},
		{"a bucket", `[{"rate_limit": {"messages": 1, "per": "1s", "kind": "bucket", "burst": 3}}]`, 5,
			map[time.Duration]int{0: 3, time.Second: 1, 2 * time.Second: 1}},
		{"two limits, one after the other",
			`[{"rate_limit": {"messages": 4, "per": "1s"}}, {"rate_limit": {"messages": 6, "per": "2s"}}]`, 12,
			map[time.Duration]int{0: 4, time.Second: 2, 2 * time.Second: 4, 3 * time.Second: 2}},
		{"a step that a condition skips", `[{"rate_limit": {"messages": 1, "per": "1s"}, "when": "n >= 3"}]`, 5,
			map[time.Duration]int{0: 4, time.Second: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlow(tt.step, numbered(`{"n":%d}`, tt.n)...)
				if diff := cmp.Diff(tt.want, counts(f.run(t, runtime.Options{}))); diff != "" {
					t.Errorf("messages by time (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestKeysDoNotHinderEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(`[{"rate_limit": {"messages": 1, "per": "1s", "key": "id"}}]`,
			`{"id":"a","n":1}`, `{"id":"a","n":2}`, `{"id":"a","n":3}`, `{"id":"b","n":1}`, `{"n":1}`,
			`{"id":null,"n":2}`, `{"id":"b","n":2}`)
		want := []arrival{
			{`{"id":"a","n":1}`, 0},
			{`{"id":"b","n":1}`, 0},
			{`{"n":1}`, 0},
			{`{"id":"a","n":2}`, time.Second},
			{`{"id":"b","n":2}`, time.Second},
			{`{"id":null,"n":2}`, time.Second},
			{`{"id":"a","n":3}`, 2 * time.Second},
		}
		got := f.run(t, runtime.Options{})
		slices.SortFunc(got, func(x, y arrival) int { // messages of different keys at the same time have no order
			return 10*int(x.At-y.At) + strings.Compare(x.Body, y.Body)
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestMessagesBeyondTheLimitAreDropped(t *testing.T) {
	tests := []struct{ name, step string }{
		{"a window", `{"rate_limit": {"messages": 1, "per": "1s", "key": "id", "on_limit": "drop"}}`},
		{"a bucket", `{"rate_limit": {"messages": 1, "per": "1s", "key": "id", "kind": "bucket", "on_limit": "drop"}}`},
	}
	in := []string{`{"id":"a","n":1}`, `{"id":"a","n":2}`, `{"id":"b","n":1}`, `{"n":1}`, `{"id":null,"n":2}`, `{"id":"a","n":3}`}
	want := []string{`{"id":"a","n":1}`, `{"id":"b","n":1}`, `{"n":1}`}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlow("["+tt.step+"]", in...)
				start := time.Now()
				f.finish(t, f.build(t, runtime.Options{}))
				got := f.sink.Bodies()
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if took := time.Since(start); took >= time.Second {
					t.Errorf("messages have waited: %v", took)
				}
			})
		})
	}
}

func TestMessagesOfAKeyKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := numbered(`{"id":"a","n":%d}`, 50)
		f := newFlow(`[{"rate_limit": {"messages": 10, "per": "1s", "kind": "bucket", "burst": 1, "key": "id"}}]`,
			in...)
		f.run(t, runtime.Options{})
		if diff := cmp.Diff(in, f.sink.Bodies()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestALimitWithANameIsShared(t *testing.T) {
	tests := []struct {
		name  string
		limit engine.RateLimit
		want  map[time.Duration]int // of both pipelines
	}{
		{"unkeyed", engine.RateLimit{Messages: 3, Per: time.Second},
			map[time.Duration]int{0: 3, time.Second: 3, 2 * time.Second: 2}},
		{"with a key of its own", engine.RateLimit{Messages: 2, Per: time.Second, Key: expr.MustCompile("n % 2")},
			map[time.Duration]int{0: 4, time.Second: 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := runtime.Options{Shared: &engine.Shared{}, Limits: map[string]engine.RateLimit{"api": tt.limit}}
				flows := []*flow{
					newFlow(`[{"rate_limit": "api"}]`, numbered(`{"n":%d}`, 4)...),
					newFlow(`[{"rate_limit": {"name": "api"}}]`, numbered(`{"n":%d}`, 4)...),
				}
				start := time.Now()
				var wg sync.WaitGroup
				for _, f := range flows {
					plan := f.build(t, o)
					wg.Go(func() { f.finish(t, plan) })
				}
				wg.Wait()
				got := counts(append(flows[0].arrivals(start), flows[1].arrivals(start)...))
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("messages by time (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWaitingMessagesHoldUpNoLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(`[{"rate_limit": {"messages": 1, "per": "1h"}, "when": "slow"}]`,
			`{"slow":true,"n":0}`, `{"slow":true,"n":1}`, `{"slow":false,"n":2}`)
		want := map[time.Duration]int{0: 2, time.Hour: 1}
		if diff := cmp.Diff(want, counts(f.run(t, runtime.Options{}))); diff != "" {
			t.Errorf("messages by time (-want +got):\n%s", diff)
		}
	})
}

func TestADrainHandsBackWhatWaitsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(`[{"rate_limit": {"messages": 1, "per": "10s"}}]`, numbered(`{"n":%d}`, 5)...)
		f.src.Endless = true
		plan := f.build(t, runtime.Options{}) // drains for 25 s; in the last 5 s, messages are handed back
		stop, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		report := plan.Run(stop, context.Background())
		ended := report.Stats.Roots.Ended
		if ended[engine.Delivered] != 3 || ended[engine.Returned] != 2 {
			t.Errorf("%d delivered and %d returned, want 3 and 2", ended[engine.Delivered], ended[engine.Returned])
		}
	})
}

func TestAKeyThatFailsFailsItsMessage(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "an expression that meets a wrong type",
			Step: `{"rate_limit": {"messages": 9, "per": "1s", "key": "upper(id)"}}`,
			In:   []string{`{"id":1}`, `{"id":"a"}`}, Want: []string{`{"id":"a"}`, "failed expression: "}},
		{Name: "a payload that is no document", Step: `{"rate_limit": {"messages": 9, "per": "1s", "key": "id"}}`,
			In: []string{`{`}, Want: []string{"failed decode: "}},
		{Name: "no key needs no document", Step: `{"rate_limit": {"messages": 9, "per": "1s"}}`, In: []string{`{`},
			Want: []string{"{"}},
	})
}

func TestRateLimitRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "nothing", Step: `{"rate_limit": null}`, Want: "a rate limit needs `messages` and `per`"},
		{Name: "no time", Step: `{"rate_limit": {"messages": 5}}`, Want: "a rate limit needs `messages` and `per`"},
		{Name: "no number", Step: `{"rate_limit": {"per": "1s"}}`, Want: "a rate limit needs `messages` and `per`"},
		{Name: "zero messages", Step: `{"rate_limit": {"messages": 0, "per": "1s"}}`, Want: "messages"},
		{Name: "less than no time", Step: `{"rate_limit": {"messages": 1, "per": "-1s"}}`, Want: "per"},
		{Name: "the burst of a window", Step: `{"rate_limit": {"messages": 1, "per": "1s", "burst": 2}}`,
			Want: "add `kind: bucket`, or remove it"},
		{Name: "another kind", Step: `{"rate_limit": {"messages": 1, "per": "1s", "kind": "leaky"}}`, Want: "window"},
		{Name: "no room for keys", Step: `{"rate_limit": {"messages": 1, "per": "1s", "key": "id", "max_keys": 0}}`,
			Want: "max_keys"},
		{Name: "a name and a rate", Step: `{"rate_limit": {"name": "api", "messages": 1}}`,
			Want: "give only `name`, or leave it out"},
		{Name: "a name and a key", Step: `{"rate_limit": {"name": "api", "key": "id"}}`,
			Want: "give only `name`, or leave it out"},
		{Name: "a name outside of a pipeline", Step: `{"rate_limit": "api"}`, Want: "only exist in pipelines"},
	})
}

func TestNamesAreLookedUp(t *testing.T) {
	o := runtime.Options{Limits: map[string]engine.RateLimit{
		"alias": {Name: "api"},
		"half":  {Messages: 1},
		"burst": {Messages: 1, Per: 1, Burst: 1},
	}}
	tests := []struct{ name, limit, want string }{
		{"a name that nobody knows", "apu", "there is no rate limit \"apu\" (define it under `resources.rate_limits`)"},
		{"a name for a name", "alias", `rate limit "alias" is only another name`},
		{"a limit without a time", "half", "rate limit \"half\": a rate limit needs `messages` and `per`"},
		{"a window with a burst", "burst", "rate limit \"burst\": `burst` is for a bucket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlow("")
			_, problems := runtime.Build(&engine.Pipeline{
				Inputs: enginetest.Named("in", f.src.Input()), Outputs: enginetest.Named("out", f.sink.Output()),
				Processors: steps(t, fmt.Sprintf(`[{"rate_limit": %q}]`, tt.limit)),
			}, o)
			if len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) {
				t.Errorf("problems %v, want one with %q", problems, tt.want)
			}
		})
	}
}

func TestMessagesMustBeAbleToWait(t *testing.T) {
	limit := `[{"rate_limit": {"messages": 1, "per": "1s"}}]`
	each := `[{"each": {"in": "items", "do": ` + limit + `}}]`
	tests := []struct {
		name string
		put  func(*engine.Pipeline, *engine.InputSpec, *engine.OutputSpec)
		ok   bool
	}{
		{"in a pipeline", func(p *engine.Pipeline, _ *engine.InputSpec, _ *engine.OutputSpec) {
			p.Processors = steps(t, limit)
		}, true},
		{"in an input", func(_ *engine.Pipeline, in *engine.InputSpec, _ *engine.OutputSpec) {
			in.Processors = steps(t, limit)
		}, true},
		{"in a case and a list", func(p *engine.Pipeline, _ *engine.InputSpec, _ *engine.OutputSpec) {
			p.Processors = steps(t, `[{"switch": [{"when": "a", "do": `+limit+`}]}, {"steps": `+limit+`}]`)
		}, true},
		{"behind a step that has steps of its own",
			func(p *engine.Pipeline, _ *engine.InputSpec, _ *engine.OutputSpec) {
				p.Processors = steps(t, `[{"each": {"in": "items", "do": [{"filter": "true"}]}}, {"steps": `+limit+`}]`)
			}, true},
		{"in an output", func(_ *engine.Pipeline, _ *engine.InputSpec, out *engine.OutputSpec) {
			out.Processors = steps(t, limit)
		}, true},
		{"in another step", func(p *engine.Pipeline, _ *engine.InputSpec, _ *engine.OutputSpec) {
			p.Processors = steps(t, each)
		}, false},
		{"in another step, if it drops", func(p *engine.Pipeline, _ *engine.InputSpec, _ *engine.OutputSpec) {
			p.Processors = steps(t, strings.Replace(each, `"1s"`, `"1s", "on_limit": "drop"`, 1))
		}, true},
		{"in a list in another step", func(p *engine.Pipeline, _ *engine.InputSpec, _ *engine.OutputSpec) {
			p.Processors = steps(t, strings.Replace(each, limit, `[{"steps": `+limit+`}]`, 1))
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, p := newFlow(""), &engine.Pipeline{}
			in, out := f.src.Input(), f.sink.Output()
			tt.put(p, &in, &out)
			p.Inputs, p.Outputs = enginetest.Named("in", in), enginetest.Named("out", out)
			_, problems := runtime.Build(p, runtime.Options{})
			if got := fmt.Sprint(problems); strings.Contains(got, "messages can't wait inside") == tt.ok {
				t.Errorf("accepted %v, want %v: %s", !tt.ok, tt.ok, got)
			}
		})
	}
}

func TestRateLimitConforms(t *testing.T) {
	steptest.Conforms(t, `{"rate_limit": {"messages": 1000000, "per": "1s", "key": "a"}}`, `{"a":1}`, `{"c":2}`)
}

func BenchmarkRateLimit(b *testing.B) {
	for _, step := range []string{
		`{"rate_limit": {"messages": 1000000000, "per": "1ms"}}`,
		`{"rate_limit": {"messages": 1000000000, "per": "1ms", "key": "a"}}`,
	} {
		b.Run(step, func(b *testing.B) {
			p := enginetest.New(b, engine.Processors, step)
			batch := enginetest.Batch(slices.Repeat([]string{`{"a":"customer"}`}, 256)...)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Process(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(256*b.N), "ns/message")
		})
	}
}
