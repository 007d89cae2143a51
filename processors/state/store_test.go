package state_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

func TestAStateIsKeptForItsTime(t *testing.T) {
	for _, cache := range []string{"", `"cache": "c",`} {
		synctest.Test(t, func(t *testing.T) {
			src := &enginetest.Source{Payloads: slices.Repeat([]string{`{"k":1}`}, 4), PerRead: 1, Every: 40 * time.Second,
				Prepare: func(i int, _ *engine.Message) {
					if i == 2 {
						time.Sleep(time.Minute)
					}
				}}
			p := pipeline{src: src, sink: &enginetest.Sink{}, cache: cachetest.New(t, `{"memory": {}}`),
				steps: `[{"state": {` + cache + `"key": "k", "ttl": "1m", "set": {"n": "(state(\"n\") ?? 0) + 1"}}}, {"map": "state(\"n\")"}]`}
			p.run(t, t.Context())
			want(t, "counts", p.sink.Bodies(), []string{"1", "2", "1", "2"})
		})
	}
}

func TestTheLeastRecentlyUsedKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &enginetest.Source{Payloads: []string{"1", "2", "1", "3", "1", "2"}, PerRead: 1, Every: time.Second}
		p := pipeline{src: src, sink: &enginetest.Sink{},
			steps: `[{"state": {"key": "this", "max_keys": 2, "set": {"n": "(state(\"n\") ?? 0) + 1"}}}, {"map": "state(\"n\")"}]`}
		p.run(t, t.Context())
		want(t, "counts", p.sink.Bodies(), []string{"1", "1", "2", "1", "3", "1"})
	})
}

func TestStepsShareACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := cachetest.New(t, `{"memory": {}}`)
		src := steptest.NewBroker(`{"k":1}`, `{"k":1}`)
		p := pipeline{src: src, sink: &enginetest.Sink{}, cache: cache, orderBy: "k", steps: `[
			{"state": {"cache": "c", "key": "k", "set": {"a": "(state(\"a\") ?? 0) + 1"}}},
			{"state": {"cache": "c", "key": "k", "set": {"b": "state(\"a\") * 10"}, "into": "s"}}]`}
		p.run(t, t.Context())
		want(t, "delivered", p.sink.Bodies(), []string{`{"k":1,"s":{"a":1,"b":10}}`, `{"k":1,"s":{"a":2,"b":20}}`})
		if got := cachetest.Get(t, cache, "state:1"); got != `{"a":2,"b":20}` {
			t.Errorf("the state is %s", got)
		}
	})
}

func TestAStateWithoutNamesIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := cachetest.New(t, `{"memory": {}}`)
		src := steptest.NewBroker(`{"k":1,"v":5}`, `{"k":1}`, `{"k":2,"v":5}`)
		p := pipeline{src: src, sink: &enginetest.Sink{}, cache: cache, orderBy: "k",
			steps: `[{"state": {"cache": "c", "key": "k", "set": {"last": "v"}}}]`}
		p.run(t, t.Context())
		if one, two := cachetest.Get(t, cache, "state:1"), cachetest.Get(t, cache, "state:2"); one != "none" || two != `{"last":5}` {
			t.Errorf("the states are %s and %s", one, two)
		}
	})
}

func TestAnInvalidStateFailsTheMessage(t *testing.T) {
	for _, value := range []string{`nope`, `[1]`, `true`, ``} {
		synctest.Test(t, func(t *testing.T) {
			cache := cachetest.New(t, `{"memory": {}}`)
			cachetest.Set(t, cache, "state:1", value, 0)
			src := steptest.NewBroker(`{"k":1}`, `{"k":2}`)
			src.Again = false
			p := pipeline{src: src, sink: &enginetest.Sink{}, cache: cache, steps: `[` + strings.Replace(count, `"key"`, `"cache": "c", "key"`, 1) +
				`]`}
			rep := p.run(t, t.Context())
			if len(rep.Failures) != 1 || !strings.Contains(rep.Failures[0].First.Message, "is not a state (give the step a cache of its own)") {
				t.Errorf("%q: %+v", value, rep.Failures)
			}
			want(t, "delivered", p.sink.Bodies(), []string{`{"k":2,"n":{"n":1}}`})
		})
	}
}

func TestAStateWaitsForItsCache(t *testing.T) {
	var in []string
	for i := range 300 {
		in = append(in, fmt.Sprintf(`{"k":%d,"i":%d}`, i%7, i))
	}
	steptest.Outages(t, `[`+strings.Replace(count, `"key"`, `"cache": "c", "key"`, 1)+`]`, in,
		func(c engine.Cache, acknowledged []string) error {
			n := 0
			for k := range 7 {
				if v, ok, err := c.Get(context.Background(), fmt.Sprint("state:", k)); err != nil {
					return err
				} else if ok {
					var state struct{ N int }
					if err := json.Unmarshal(v, &state); err != nil {
						return err
					}
					n += state.N
				}
			}
			if n < len(acknowledged) {
				return fmt.Errorf("the states count %d messages", n)
			}
			return nil
		})
}

// refusing is a cache that refuses each write permanently.
type refusing struct{ slowCache }

func (*refusing) Set(context.Context, string, []byte, time.Duration) error {
	return engine.Errorf(engine.Rejected, "the value is too large")
}

func TestAStateThatTheCacheRefusesIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := &refusing{slowCache{r: rand.New(rand.NewPCG(1, 1)), values: map[string][]byte{}}}
		src := steptest.NewBroker(`{"k":1}`)
		p := pipeline{src: src, sink: &enginetest.Sink{}, cache: cache,
			steps: `[` + strings.Replace(count, `"key"`, `"cache": "c", "key"`, 1) + `]`}
		rep := p.run(t, t.Context())
		if rep.Err == nil || !strings.Contains(rep.Err.Error(), "missing states of delivered messages: 1: the value is too large") {
			t.Errorf("the pipeline ended with %v", rep.Err)
		}
		want(t, "fates", src.Fates, []string{`{"k":1} delivered`})
	})
}

func TestADrainHandsBackWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := cachetest.New(t, `{"memory": {}}`)
		src := steptest.NewBroker(`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":2,"v":3}`)
		src.Again = false
		p := pipeline{src: src, sink: &enginetest.Sink{Block: make(chan struct{})}, cache: cache,
			steps: `[` + with(list, `"cache": "c", "wait": true`) + `]`}
		stop, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.run(t, stop)
		slices.Sort(src.Fates)
		want(t, "fates", src.Fates, []string{`{"k":1,"v":1} returned`, `{"k":1,"v":2} returned`, `{"k":2,"v":3} returned`})
		if got := cachetest.Get(t, cache, "state:1"); got != "none" {
			t.Errorf("the state is %s", got)
		}
	})
}

// TestMessagesDoNotWaitInACircle uses two messages with parts, each of which waits for a part of the other.
func TestMessagesDoNotWaitInACircle(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			var in []string
			for range 60 {
				in = append(in, fmt.Sprintf(`{"list":[%d,%d,%d]}`, r.IntN(4), r.IntN(4), r.IntN(4)))
			}
			cache := cachetest.New(t, `{"memory": {}}`)
			src := steptest.NewBroker(in...)
			p := pipeline{src: src, sink: &enginetest.Sink{Delay: time.Millisecond, Fail: failing(20, "")}, cache: cache, workers: 4,
				steps: `[{"split": "list"}, {"state": {"cache": "c", "key": "this", "wait": true, "set": {"n": "(state(\"n\") ?? 0) + 1"}}}]`}
			stop, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			p.run(t, stop)
			if src.Stuck() > 0 {
				t.Fatalf("%d messages wait for ever", src.Stuck())
			}
			for k := range 4 {
				n := strings.Count(strings.Join(in, ""), fmt.Sprint(k))
				if got := cachetest.Get(t, cache, fmt.Sprint("state:", k)); got != fmt.Sprintf(`{"n":%d}`, n) {
					t.Errorf("the state of %d is %s, want %d", k, got, n)
				}
			}
		})
	}
}
