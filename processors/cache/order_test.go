package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/dedupe"
	_ "github.com/flowd-io/flowd/processors/set"
	"github.com/flowd-io/flowd/schema"
)

const counting = `[{"cache": {"get": "c", "key": "k", "into": "n"}}, {"set": {"n": "(n ?? 0) + 1"}}, {"cache": {"set": "c", "key": "k", ` +
	`"value": "n"}}]`

// ordered runs a pipeline with several keys, and returns the delivered messages of each.
func ordered(t *testing.T, in []string, perRead, workers int, then string,
	steps ...engine.StepSpec) map[string][]string {
	t.Helper()
	src := &enginetest.Source{Payloads: in, Takes: engine.TakesOne, PerRead: perRead}
	out, dead := &enginetest.Sink{}, &enginetest.Sink{Delay: time.Second}
	spec := &engine.Pipeline{
		Name: "test", Inputs: enginetest.Named("in", src.Input()), Processors: steps,
		Engine:  engine.EngineSpec{Workers: workers, OrderBy: expr.MustCompile("k")},
		Outputs: enginetest.Named("out", out.Output()),
	}
	spec.Batchers = enginetest.Named("all", engine.BatcherSpec{Output: engine.Names{"out"}})
	spec.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 2, Backoff: time.Second}
	if spec.Engine.OnFailure.Then.Word = then; then == "dead_letter" {
		spec.Engine.OnFailure.DeadLetter = "dead"
		spec.Outputs = schema.MapOf(append(spec.Outputs.Entries(),
			schema.Entry[engine.OutputSpec]{Key: "dead", Value: dead.Output()})...)
	}
	plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.DiscardHandler),
		Caches: map[string]engine.Plugin[engine.Cache]{"c": memory(t)}})
	if plan == nil {
		t.Fatal(problems)
	}
	plan.Run(t.Context(), t.Context())
	got := map[string][]string{}
	for _, body := range out.Bodies() {
		var i, k, n int
		if _, err := fmt.Sscanf(body, `{"i":%d,"k":%d,"n":%d`, &i, &k, &n); err != nil {
			t.Fatal(body, err)
		}
		got[fmt.Sprint(k)] = append(got[fmt.Sprint(k)], fmt.Sprintf("%d:%d", i, n))
	}
	return got
}

func stepsOf(t *testing.T, text string) (steps engine.Steps) {
	steptest.Decode(t, text, &steps)
	return steps
}

func TestStepsSeeWhatEarlierMessagesOfTheirKeyHaveWritten(t *testing.T) {
	const all, without = "[1:1 2:2 3:3 4:4 5:5 6:6]", "[1:1 2:2 4:3 5:4 6:5]"
	third := func(do func(m *engine.Message) error) func() engine.StepSpec {
		return func() engine.StepSpec {
			var seen [4]bool // once for each key, which has one lane
			return enginetest.Step("third", func(_ context.Context, m *engine.Message) error {
				var i, k int
				if _, err := fmt.Sscanf(string(m.Bytes()), `{"i":%d,"k":%d`, &i, &k); err != nil || i != 3 || k == 2 ||
					seen[k] {
					return err
				}
				seen[k] = true
				return do(m)
			})
		}
	}
	fails := third(func(*engine.Message) error { return errors.New("refused") })
	tests := []struct {
		name  string
		third func() engine.StepSpec
		then  string
		want  string // of the keys 1 and 3; nothing happens to key 2
	}{
		{"all go through", third(func(*engine.Message) error { return nil }), "", all},
		{"one is tried again", third(func(*engine.Message) error { return engine.Errorf(engine.Transient, "once") }),
			"", all},
		{"one waits", third(func(m *engine.Message) error { m.Delay(time.Second); return nil }), "", all},
		{"one is parked, and goes on", third(func(m *engine.Message) error {
			resume := m.Park()
			time.AfterFunc(time.Second, func() { resume(nil) })
			return nil
		}), "", all},
		{"one is parked, and fails", third(func(m *engine.Message) error {
			resume := m.Park()
			time.AfterFunc(time.Second, func() { resume(func(*engine.Message) error { return errors.New("refused") }) })
			return nil
		}), "dead_letter", without},
		{"one is filtered", third(func(m *engine.Message) error { m.Drop(); return nil }), "", "[1:1 2:2 4:4 5:5 6:6]"},
		{"one becomes a dead letter", fails, "dead_letter", without},
		{"one is dropped", fails, "drop", without},
		{"one is returned", fails, "return", without},
		{"one is dropped by its step", func() engine.StepSpec {
			s := fails()
			s.OnError.Then = "drop"
			return s
		}, "", without},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, perRead := range []int{0, 1, 5} {
				synctest.Test(t, func(t *testing.T) {
					var in []string
					for i := 1; i <= 6; i++ {
						for k := 1; k <= 3; k++ {
							in = append(in, fmt.Sprintf(`{"i":%d,"k":%d}`, i, k))
						}
					}
					got := ordered(t, in, perRead, 2, tt.then, append(stepsOf(t, counting), tt.third())...)
					want := map[string]string{"1": tt.want, "2": all, "3": tt.want}
					for k := range want {
						if fmt.Sprint(got[k]) != want[k] {
							t.Errorf("%d a read: key %s: %v, want %v", perRead, k, got[k], want[k])
						}
					}
				})
			}
		})
	}
}

func TestPartsOfAMessageSeeWhatThoseBeforeThemHaveWritten(t *testing.T) {
	for name, do := range map[string]func(m *engine.Message) error{
		"all go through": func(*engine.Message) error { return nil },
		"one waits":      func(m *engine.Message) error { m.Delay(time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				third := enginetest.Step("third", func(_ context.Context, m *engine.Message) error {
					if m.Part() == 3 {
						return do(m)
					}
					return nil
				})
				in := []string{`{"k":1,"parts":[{"i":1,"k":1},{"i":2,"k":1},{"i":3,"k":1},{"i":4,"k":1}]}`,
					`{"k":1,"parts":[{"i":5,"k":1}]}`}
				steps := append(stepsOf(t, `[{"split": "parts"}]`), stepsOf(t, counting)...)
				if got := ordered(t, in, 0, 2, "",
					append(steps, third)...); fmt.Sprint(got["1"]) != "[1:1 2:2 3:3 4:4 5:5]" {
					t.Errorf("got %v", got["1"])
				}
			})
		})
	}
}

// A dedupe and a step that sets also count as two steps that read and write.
func TestADedupeSeesWhatAnotherStepHasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dedupe := `[{"dedupe": {"cache": "c", "key": "k"}, "when": "ask"}, {"cache": {"set": "c", "key": "k", "value": "1"}, "when": "not ask"}]`
		in := []string{`{"i":1,"k":1,"n":0,"ask":false}`, `{"i":2,"k":1,"n":0,"ask":true}`,
			`{"i":3,"k":2,"n":0,"ask":true}`}
		got := ordered(t, in, 0, 1, "", stepsOf(t, dedupe)...)
		if fmt.Sprint(got) != "map[1:[1:0] 2:[3:0]]" {
			t.Errorf("delivered %v", got)
		}
	})
}

// With all workers at once, in real time, no count is lost.
func TestCountsByKeyAreComplete(t *testing.T) {
	const n, keys = 20_000, 20
	var in []string
	counts := map[int]int{}
	var want [keys][]string
	for i := range n {
		k := rand.IntN(keys)
		counts[k]++
		in = append(in, fmt.Sprintf(`{"i":%d,"k":%d}`, i, k))
		want[k] = append(want[k], fmt.Sprintf("%d:%d", i, counts[k]))
	}
	got := ordered(t, in, 0, 4, "", stepsOf(t, counting)...)
	for k := range keys {
		if !slices.Equal(got[fmt.Sprint(k)], want[k]) {
			t.Errorf("key %d: %d of %d counts, or in another order", k, len(got[fmt.Sprint(k)]), len(want[k]))
		}
	}
}
