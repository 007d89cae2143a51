package pool_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/dedupe"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/group"
	_ "github.com/flowd-io/flowd/processors/meta"
	_ "github.com/flowd-io/flowd/processors/pool"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/steps"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stopped counts the naps whose context has ended.
var stopped atomic.Int32

// nap waits for as many milliseconds as the field ms says.
type nap struct {
	Flaky bool `yaml:"flaky" doc:"Every second call fails."`

	calls *atomic.Int32
}

func init() {
	engine.Register(engine.Processors, "test_nap", "Waits.", nap{},
		func(c nap, _ engine.Env) (engine.Processor, error) {
			c.calls = new(atomic.Int32)
			return engine.ProcessorFunc(c.wait), nil
		})
}

func (c nap) wait(ctx context.Context, m *engine.Message) error {
	if c.Flaky {
		if n := c.calls.Add(1); n%2 == 1 {
			return fmt.Errorf("try %d", n)
		}
	}
	path, err := doc.ParsePath("ms")
	if err != nil {
		return err
	}
	ms, err := m.Get(path)
	if n, ok := ms.(int); ok && err == nil {
		select {
		case <-time.After(time.Duration(n) * time.Millisecond):
		case <-ctx.Done():
			stopped.Add(1)
			return context.Cause(ctx)
		}
	}
	return err
}

// line is a pipeline with one source and one sink, and its parts as JSON.
type line struct {
	steps, batch, inSteps, outSteps, settings string

	src  *enginetest.Source
	sink *enginetest.Sink
}

func (l *line) spec(t *testing.T) *engine.Pipeline {
	t.Helper()
	if l.sink == nil {
		l.sink = &enginetest.Sink{}
	}
	p := &engine.Pipeline{Name: "test"}
	in, out := l.src.Input(), l.sink.Output()
	read(t, l.steps, &p.Processors)
	read(t, l.inSteps, &in.Processors)
	read(t, l.outSteps, &out.Processors)
	read(t, cmp.Or(l.settings, "{}"), &p.Engine)
	if l.batch != "" {
		var b engine.BatcherSpec
		read(t, `{"batch": {"size": 100}, "output": "out", "processors": `+l.batch+`}`, &b)
		p.Batchers = enginetest.Named("all", b)
	}
	p.Inputs, p.Outputs = enginetest.Named("in", in), enginetest.Named("out", out)
	return p
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if text != "" {
		steptest.Decode(t, text, into)
	}
}

// run runs the pipeline to its end, and returns the sorted messages that were delivered, and those that failed.
func (l *line) run(t *testing.T) (bodies, failures []string) {
	t.Helper()
	rep := enginetest.Run(t, l.spec(t), nil)
	if rep.Err != nil {
		t.Error(rep.Err)
	}
	for _, f := range rep.Failures {
		failures = append(failures, fmt.Sprintf("%d %s %s: %s", f.Count, f.Fate, f.First.Class, f.First.Message))
	}
	bodies = l.sink.Bodies()
	slices.Sort(bodies)
	return bodies, failures
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got  %q\nwant %q", what, got, want)
	}
}

func numbered(n int, format string) (all []string) {
	for i := range n {
		all = append(all, strings.ReplaceAll(format, "N", fmt.Sprintf("%02d", i)))
	}
	return all
}

func TestAPoolIsInAnyPlace(t *testing.T) {
	const do = `{"pool": {"name": "p", "workers": 4, "do": [{"test_nap": {}}, {"set": {"x": "n"}}, {"filter": "n != \"01\""}, {"fail": ` +
		`"bad", "when": "n == \"02\""}]}}`
	in := numbered(6, `{"ms":10,"n":"N"}`)
	var out []string
	for _, i := range []int{0, 3, 4, 5} {
		out = append(out, fmt.Sprintf(`{"ms":10,"n":"%02d","x":"%02d"}`, i, i))
	}
	const each = `[{"each": {"in": "l", "do": [{"pool": {"name": "p", "workers": 4, "do": [{"set": {"y": "1"}}]}}]}}]`
	for name, l := range map[string]line{
		"a step of all": {steps: "[" + do + "]"},
		"its input's":   {inSteps: "[" + do + "]"},
		"its output's":  {outSteps: "[" + do + "]"},
		"a batch's":     {batch: "[" + do + "]"},
		"in a group":    {steps: `[{"group": {"size": 4, "timeout": "1s", "do": [` + do + `]}}]`},
		"behind a pool": {steps: `[{"pool": {"name": "q", "workers": 1, "do": [{"test_nap": {}}]}}, ` + do + `]`},
		"in a pool":     {steps: `[{"pool": {"name": "q", "workers": 2, "do": [` + do + `]}}]`},
		"in a case, in reading order": {steps: `[{"pool": {"name": "q", "workers": 2, "do": [{"set": {"n": "n"}}]}}, ` + do + `]`,
			settings: `{"order_by": "1"}`},
		"where nothing may run at one": {steps: "[" + do + "]", settings: `{"max_in_flight": {"messages": 1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l.src = &enginetest.Source{Payloads: in, Takes: engine.TakesOne}
				bodies, failures := l.run(t)
				want(t, "delivered", bodies, out...)
				want(t, "failed", failures, "1 returned permanent: bad")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := line{steps: each, src: &enginetest.Source{Payloads: []string{`{"l":[{"a":1},{"a":2}]}`},
			Takes: engine.TakesOne}}
		bodies, failures := l.run(t)
		want(t, "delivered", bodies, `{"l":[{"a":1,"y":1},{"a":2,"y":1}]}`)
		want(t, "failed", failures)
	})
}

func TestWorkIsSharedAmongTheSlots(t *testing.T) {
	for slots, took := range map[int]time.Duration{1: 40 * time.Second, 4: 10 * time.Second, 8: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := line{
				steps:    fmt.Sprintf(`[{"pool": {"name": "p", "workers": %d, "do": [{"test_nap": {}}]}}]`, slots),
				settings: `{"workers": 1}`,
				src:      &enginetest.Source{Payloads: numbered(40, `{"ms":1000,"n":"N"}`), Takes: engine.TakesOne},
			}
			began := time.Now()
			bodies, failures := l.run(t)
			if got := time.Since(began); got != took || len(bodies) != 40 || len(failures) != 0 {
				t.Errorf("%d slots: %d delivered after %v, want %v; %q", slots, len(bodies), got, took, failures)
			}
		})
	}
}

func TestOrderHoldsThroughAPool(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			src := &enginetest.Source{Takes: engine.TakesOne, PerRead: 7}
			for i := range 300 {
				src.Payloads = append(src.Payloads, fmt.Sprintf(`{"k":%d,"n":%d,"ms":%d}`, r.IntN(9), i, r.IntN(50)))
			}
			l := line{steps: `[{"pool": {"name": "p", "workers": 4, "retries": -1, "retry_on": ["error"], "do": [{"test_nap": {"flaky": true}}]}}]`,
				settings: `{"order_by": "k", "workers": 4}`, src: src}
			rep := enginetest.Run(t, l.spec(t), nil)
			if len(rep.Failures) > 0 || rep.Stats.Roots.Ended[engine.Delivered] != 300 {
				t.Errorf("%+v, %+v", rep.Stats.Roots, rep.Failures)
			}
			last := map[string]int{}
			for _, body := range l.sink.Bodies() {
				var k, n, ms int
				if _, err := fmt.Sscanf(body, `{"k":%d,"n":%d,"ms":%d}`, &k, &n, &ms); err != nil {
					t.Fatal(body, err)
				}
				if key := fmt.Sprint(k); n < last[key] {
					t.Errorf("seed %d: %d of key %s comes behind %d", seed, n, key, last[key])
				} else {
					last[key] = n
				}
			}
		})
	}
}

func TestBatchesAreSplitAndMergedInAPool(t *testing.T) {
	pool := func(do string) string {
		return `[{"pool": {"name": "p", "workers": 2, "do": ` + do + `}}]`
	}
	for _, r := range []struct {
		name, batch string
		in, want    []string
		failed      []string
	}{
		{"merged", pool(`[{"archive": "lines"}]`), []string{"1", "2"}, []string{"1\n2\n"}, nil},
		{"split", pool(`[{"split": "l"}]`), []string{`{"l":[1,2]}`, `{"l":[3]}`}, []string{"1", "2", "3"}, nil},
		{"split and filtered in part", pool(`[{"split": "l"}, {"filter": "this > 1"}]`),
			[]string{`{"l":[1,2,3]}`, `{"l":[1]}`}, []string{"2", "3"}, nil},
		{"merged before", `[{"archive": "lines"}, ` + pool(`[{"meta": {"a": "1"}}]`)[1:], []string{"1", "2"},
			[]string{"1\n2\n"}, nil},
		{"split behind", `[` + strings.Trim(pool(`[{"set": {"l": "[1, 2]"}}]`), "[]") + `, {"split": "l"}]`,
			[]string{`{}`}, []string{"1", "2"}, nil},
		{"failed in part", pool(`[{"fail": "no", "when": "n == 2"}]`), []string{`{"n":1}`, `{"n":2}`},
			[]string{`{"n":1}`}, []string{"1 returned permanent: no"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// One lane only: with two, messages may overtake each other on the way to the batcher.
				l := line{batch: r.batch, settings: `{"workers": 1}`,
					src: &enginetest.Source{Payloads: r.in, Takes: engine.TakesOne}}
				bodies, failures := l.run(t)
				want(t, "delivered", bodies, r.want...)
				want(t, "failed", failures, r.failed...)
			})
		})
	}
}

func TestATryHasATimeout(t *testing.T) {
	for _, r := range []struct {
		more   string
		took   time.Duration
		failed string
	}{
		{`"retries": 0`, time.Second, "1 returned timeout: pool p: no answer within 1s"},
		{`"retries": 2`, 3 * time.Second, "1 returned timeout: pool p: no answer within 1s, after 3 attempts"},
		{`"retry_on": ["error"]`, time.Second, "1 returned timeout: pool p: no answer within 1s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := line{
				steps: `[{"pool": {"name": "p", "workers": 1, "timeout": "1s", ` + r.more +
					`, "do": [{"test_nap": {}}]}}]`,
				src: &enginetest.Source{Payloads: []string{`{"ms":5000}`}, Takes: engine.TakesOne},
			}
			began := time.Now()
			_, failures := l.run(t)
			want(t, r.more, failures, r.failed)
			if got := time.Since(began); got != r.took {
				t.Errorf("%s: after %v, want %v", r.more, got, r.took)
			}
		})
	}
}

func TestARetryOnTheStepBeginsAllOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{
			steps: `[{"pool": {"name": "p", "workers": 1, "timeout": "1s", "retries": 1, "do": [{"test_nap": {}}]}, "retry": {"intervals": ` +
				`["1s"], "max_attempts": 2}}]`,
			src: &enginetest.Source{Payloads: []string{`{"ms":5000}`}, Takes: engine.TakesOne},
		}
		began := time.Now()
		_, failures := l.run(t)
		want(t, "failed", failures, "1 returned timeout: pool p: no answer within 1s, after 2 attempts")
		if got := time.Since(began); got != 5*time.Second {
			t.Errorf("after %v", got)
		}
	})
}

// TestTheEnginesTimeoutIsNotThePools lets a pool wait in a batch for longer than the timeout of a step.
func TestTheEnginesTimeoutIsNotThePools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{
			batch:    `[{"pool": {"name": "p", "workers": 1, "timeout": "1m", "do": [{"test_nap": {}, "timeout": "1m"}]}}]`,
			settings: `{"timeout": "500ms"}`,
			src:      &enginetest.Source{Payloads: []string{`{"ms":5000}`}, Takes: engine.TakesOne},
		}
		bodies, failures := l.run(t)
		want(t, "delivered", bodies, `{"ms":5000}`)
		want(t, "failed", failures)
	})
}

// TestDedupeInAPoolNeedsASingleTry uses a dedupe, which would drop the second attempt of a message as a duplicate of the first.
func TestDedupeInAPoolNeedsASingleTry(t *testing.T) {
	l := line{steps: `[{"pool": {"name": "p", "workers": 1, "do": [{"each": {"in": "l", "do": [{"dedupe": "n"}]}}]}}]`,
		src: &enginetest.Source{}}
	plan, problems := runtime.Build(l.spec(t), runtime.Options{Log: slog.New(slog.DiscardHandler)})
	if plan != nil || !strings.Contains(fmt.Sprint(problems), "dedupe") {
		t.Errorf("got %v", problems)
	}
}

func TestDedupeInAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{
			steps:    `[{"pool": {"name": "p", "workers": 1, "retries": 0, "do": [{"dedupe": "n"}, {"test_nap": {}}]}}]`,
			settings: `{"order_by": "1"}`,
			src: &enginetest.Source{Payloads: []string{`{"n":1}`, `{"n":2}`, `{"n":1}`}, Takes: engine.TakesOne,
				PerRead: 1, Every: time.Minute},
		}
		bodies, failures := l.run(t)
		want(t, "delivered", bodies, `{"n":1}`, `{"n":2}`)
		want(t, "failed", failures)
	})
}

func TestADrainWaitsForJobs(t *testing.T) {
	for _, r := range []struct {
		ms, delivered, returned int
		code                    int
	}{
		{5000, 4, 0, 0},
		{60_000, 0, 4, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := line{
				steps: `[{"pool": {"name": "p", "workers": 2, "max_pending": 3, "timeout": "10m", "do": [{"test_nap": {}}]}}]`,
				src: &enginetest.Source{Payloads: numbered(4, fmt.Sprintf(`{"n":"N","ms":%d}`, r.ms)),
					Takes: engine.TakesOne, Endless: true},
			}
			stopped.Store(0)
			stop, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			rep := enginetest.Run(t, l.spec(t), stop)
			c := rep.Stats.Roots
			if int(c.Ended[engine.Delivered]) != r.delivered || int(c.Ended[engine.Returned]) != r.returned ||
				rep.Code() != r.code {
				t.Errorf("%d ms: %+v, exit %d", r.ms, c, rep.Code())
			}
			for body, x := range l.src.Results() {
				if (x.Fate == engine.Delivered) != (r.delivered > 0) {
					t.Errorf("the source is told %v of %s", x.Fate, body)
				}
			}
			if synctest.Wait(); r.returned > 0 && stopped.Load() != 2 {
				t.Errorf("%d jobs were stopped", stopped.Load())
			}
			time.Sleep(time.Hour) // a late result is dropped
			if n := len(l.sink.Bodies()); n != r.delivered {
				t.Errorf("%d are written", n)
			}
		})
	}
}

func TestAReloadContinuesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{
			steps: `[{"pool": {"name": "p", "workers": 1, "timeout": "10m", "do": [{"test_nap": {}}]}}]`,
			src: &enginetest.Source{Payloads: numbered(6, `{"n":"N","ms":3000}`), Takes: engine.TakesOne,
				Endless: true},
		}
		spec := l.spec(t)
		old := enginetest.Build(t, spec)
		ended := make(chan runtime.Report, 1)
		go func() { ended <- old.Run(context.Background(), context.Background()) }()
		time.Sleep(time.Second)
		next, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.DiscardHandler), Instead: old,
			Same: func(string, string) bool { return true }})
		if next == nil {
			t.Fatal(problems)
		}
		old.Replace(next)
		first := <-ended
		if first.Err != nil || first.HandedBack != 0 || len(first.Failures) > 0 {
			t.Errorf("the old plan: %+v", first)
		}
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rep := next.Run(stop, context.Background())
		if c := rep.Stats.Roots; !c.Balanced() || c.Ended[engine.Delivered] != 6 || len(rep.Failures) > 0 {
			t.Errorf("the new plan: %+v, %+v", c, rep.Failures)
		}
		bodies := l.sink.Bodies()
		slices.Sort(bodies)
		want(t, "delivered", bodies, l.src.Payloads...)
	})
}

func TestStepsThatARemotePoolRefuses(t *testing.T) {
	for do, hint := range map[string]string{
		`{"dedupe": "n"}`: "dedupe can't run in another process (write it before the pool)",
		`{"each": {"in": "l", "do": [{"dedupe": "n"}]}}`:                     "dedupe can't run",
		`{"pool": {"name": "q", "workers": 1, "do": [{"set": {"a": "1"}}]}}`: "pool can't run",
		`{"set": {"a": "1"}, "on_error": [{"dedupe": "n"}]}`:                 "dedupe can't run",
		`{"archive": "lines"}`: "whole batches",
		`{"set": {"a": "1"}}`:  "there is no address for workers to join",
	} {
		l := line{steps: `[{"pool": {"name": "p", "workers": "remote", "do": [` + do + `]}}]`,
			src: &enginetest.Source{}}
		plan, problems := runtime.Build(l.spec(t), runtime.Options{Log: slog.New(slog.DiscardHandler)})
		if plan != nil || !strings.Contains(fmt.Sprint(problems), hint) {
			t.Errorf("%s: got %v, want %s", do, problems, hint)
		}
	}
}

func TestARehearsalIsLocal(t *testing.T) {
	shared := &engine.Shared{}
	wire.Of(shared).Rehearsal = true
	synctest.Test(t, func(t *testing.T) {
		l := line{steps: `[{"pool": {"name": "p", "workers": "remote", "do": [{"set": {"a": "1"}}]}}]`,
			src: &enginetest.Source{Payloads: []string{"{}"}}}
		plan, problems := runtime.Build(l.spec(t), runtime.Options{Log: slog.New(slog.DiscardHandler), Shared: shared})
		if plan == nil {
			t.Fatal(problems)
		}
		plan.Run(context.Background(), context.Background())
		want(t, "delivered", l.sink.Bodies(), `{"a":1}`)
	})
}

func TestBadSettingsAreProblems(t *testing.T) {
	for text, hint := range map[string]string{
		`{"name": "a.b", "workers": 1, "do": [{"set": {"a": "1"}}]}`:                    "not a valid pool name",
		`{"name": "p", "workers": 0, "do": [{"set": {"a": "1"}}]}`:                      "at least 1",
		`{"name": "p", "workers": -1, "do": [{"set": {"a": "1"}}]}`:                     "at least 1",
		`{"name": "p", "workers": "many", "do": [{"set": {"a": "1"}}]}`:                 "",
		`{"name": "p", "workers": 1, "retries": -2, "do": [{"set": {"a": "1"}}]}`:       "-1",
		`{"name": "p", "workers": 1, "retry_on": ["any"], "do": [{"set": {"a": "1"}}]}`: "lost",
		`{"name": "p", "workers": 1, "do": []}`:                                         "empty",
		`{"name": "p", "workers": 1}`:                                                   "required",
		`{"workers": 1, "do": [{"set": {"a": "1"}}]}`:                                   "",
	} {
		if p := enginetest.Problems(t, engine.Processors, `{"pool": `+text+`}`); len(p) == 0 ||
			!strings.Contains(fmt.Sprint(p), hint) {
			t.Errorf("%s: got %q, want %s", text, p, hint)
		}
	}
}

func TestASnapshotShowsTheJobsOfAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{steps: `[{"pool": {"name": "p", "workers": 2, "do": [{"test_nap": {}}]}}]`,
			src: &enginetest.Source{Payloads: numbered(5, `{"n":"N","ms":1000}`)}}
		plan := enginetest.Build(t, l.spec(t))
		done := make(chan struct{})
		go func() { defer close(done); plan.Run(t.Context(), context.Background()) }()
		time.Sleep(500 * time.Millisecond)
		if p := plan.Snapshot().Steps[0].Pool; p == nil || p.Slots != 2 || p.InFlight != 2 || p.Waiting != 3 || p.Workers != nil {
			t.Errorf("got %+v", p)
		}
		<-done
		if p := plan.Snapshot().Steps[0].Pool; p == nil || p.InFlight+p.Waiting != 0 {
			t.Errorf("at the end: %+v", p)
		}
	})
}
