package state_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/processors/dedupe"
	_ "github.com/flowd-io/flowd/processors/group"
	_ "github.com/flowd-io/flowd/processors/sleep"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

// Parts of one message may wait at two steps for parts of another message, and vice versa. Each pair of steps that may wait is tested,
// with order keys and without.
func TestNoMessageWaitsForItselfByWayOfTwoSteps(t *testing.T) {
	state := func(key, more string) string {
		return fmt.Sprintf(`{"state": {"key": %q, "wait": true, "set": {"n": "(state(\"n\") ?? 0) + 1"}%s}}`, key, more)
	}
	a, b, c := state("a", ""), state("b", ""), state("b", `, "cache": "c"`)
	pairs := map[string]string{
		"two states":                          a + `, ` + b,
		"a state, and one in a cache":         a + `, ` + c,
		"a state and a dedupe":                a + `, {"dedupe": "b"}`,
		"a dedupe and a state":                `{"dedupe": "a"}, ` + b,
		"two dedupes, one with a cache":       `{"dedupe": "a"}, {"dedupe": {"key": "b", "cache": "c"}}`,
		"two states in a group":               `{"group": {"size": 5, "timeout": "1s", "do": [` + a + `, ` + b + `]}}`,
		"a state, and one in a group":         a + `, {"group": {"size": 5, "timeout": "1s", "do": [` + b + `]}}`,
		"a state before a group, one behind":  a + `, {"group": {"size": 5, "timeout": "1s", "do": [{"sleep": "1ms"}]}}, ` + b,
		"two states with a slow step between": a + `, {"sleep": "3ms"}, ` + b,
	}
	for name, steps := range pairs {
		for _, orderBy := range []string{"", "k", "b", "a"} {
			t.Run(name+" by "+orderBy, func(t *testing.T) {
				for seed := range uint64(4) {
					synctest.Test(t, func(t *testing.T) {
						r := rand.New(rand.NewPCG(seed, 9))
						var in []string
						for i := range 40 {
							text := ""
							for range 3 {
								text += fmt.Sprintf(`,{"a":%d,"b":%d}`, r.IntN(3), r.IntN(3))
							}
							in = append(in, fmt.Sprintf(`{"i":%d,"k":%d,"a":%d,"b":%d,"list":[%s]}`, i, r.IntN(5), r.IntN(3), r.IntN(3), text[1:]))
						}
						src := steptest.NewBroker(in...)
						p := pipeline{src: src, sink: &enginetest.Sink{Delay: time.Millisecond, Fail: failing(10, "")},
							cache: cachetest.New(t, `{"memory": {}}`), workers: 4, orderBy: orderBy,
							steps: `[{"split": "list"}, ` + steps + `]`}
						stop, cancel := context.WithTimeout(t.Context(), time.Hour)
						defer cancel()
						p.run(t, stop)
						if n := src.Stuck(); n > 0 {
							t.Fatalf("seed %d: %d messages wait for ever", seed, n)
						}
						if n := len(src.Well()); n != len(in) {
							t.Errorf("seed %d: %d of %d messages ended well", seed, n, len(in))
						}
					})
				}
			})
		}
	}
}
