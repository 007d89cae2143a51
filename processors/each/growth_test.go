package each_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/branch"
	_ "github.com/flowd-io/flowd/processors/parallel"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/while"
)

// If the inner steps of a step make a message much larger, the step either finds memory for it or fails the message. It does not retry
// forever.
func TestGrowthInInnerStepsEnds(t *testing.T) {
	const limit = 1 << 20
	inner := map[string]string{ // makes N pieces of 10,000 bytes of each message
		"each": `{"each": {"in": "l", "do": [{"set": {"this": "repeat(\"x\", 10000)"}}]}}`,
		"each in each": `{"each": {"in": "one", "do": [{"set": {"m": "1..N"}},
			{"each": {"in": "m", "do": [{"set": {"this": "repeat(\"x\", 10000)"}}]}}]}}`,
		"while":    `{"while": {"when": "len(l) > size() / 10000", "do": [{"set": {"s": "(s ?? \"\") + repeat(\"x\", 10000)"}}], "max": 1000}}`,
		"branch":   `{"branch": {"do": [{"set": {"s": "map(l, repeat(\"x\", 10000))"}}], "into": "b"}}`,
		"parallel": `{"parallel": {"a": [{"set": {"s": "map(l, repeat(\"x\", 10000))"}}], "b": [{"set": {"t": "1"}}]}}`,
	}
	for name, step := range inner {
		for _, pieces := range []int{20, 60, 95, 300} {
			t.Run(fmt.Sprintf("%s, %d%% of all", name, pieces), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src, dst := &enginetest.Source{Takes: engine.TakesOne}, &enginetest.Sink{Delay: time.Millisecond}
					for i := range 6 {
						src.Payloads = append(src.Payloads, fmt.Sprintf(`{"i":%d}`, i))
					}
					p := &engine.Pipeline{Name: "test", Inputs: enginetest.Named("in", src.Input()),
						Outputs: enginetest.Named("out", dst.Output()), Engine: engine.EngineSpec{Workers: 3}}
					p.Engine.MaxInFlight.Bytes = limit
					steps := `[{"set": {"one": "[{}]", "l": "1..N"}}, ` + step + `]`
					steptest.Decode(t, strings.ReplaceAll(steps, "N", strconv.Itoa(pieces)), &p.Processors)
					plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.DiscardHandler)})
					if plan == nil {
						t.Fatal(problems)
					}
					stop, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					rep := plan.Run(stop, context.Background())
					if stop.Err() != nil {
						t.Fatalf("it never ends: %+v", rep.Stats.Roots)
					}
					delivered := int(rep.Stats.Roots.Ended[engine.Delivered])
					for _, f := range rep.Failures {
						if f.First.Class != engine.TooLarge {
							t.Errorf("failed with class %s: %s", f.First.Class, f.First.Message)
						}
					}
					// Intermediate results of a step count as well: while makes each piece again.
					fits, tooLarge := pieces <= 20 && name != "while", pieces > 104
					if fits && delivered != 6 || tooLarge && delivered != 0 || delivered%6 != 0 {
						t.Errorf("%d of 6 messages were delivered", delivered)
					}
				})
			})
		}
	}
}
