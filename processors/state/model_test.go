package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

// slowCache keeps values in a map; some of its calls take time, and some fail.
type slowCache struct {
	mu     sync.Mutex // guards the fields below
	r      *rand.Rand
	values map[string][]byte
	fails  int // percentage of calls
}

func (c *slowCache) call() error {
	c.mu.Lock()
	wait, fails := time.Duration(c.r.IntN(3))*time.Millisecond, c.r.IntN(100) < c.fails
	c.mu.Unlock()
	time.Sleep(wait)
	if fails {
		return errors.New("the cache is not well")
	}
	return nil
}

func (c *slowCache) Get(_ context.Context, key string) ([]byte, bool, error) {
	err := c.call()
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.values[key]
	return v, ok, err
}

func (c *slowCache) Set(_ context.Context, key string, value []byte, _ time.Duration) error {
	err := c.call()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.values[key] = value
	}
	return err
}

func (c *slowCache) Add(context.Context, string, []byte, time.Duration) (bool, error) {
	return false, errors.New("nobody adds")
}

func (c *slowCache) Delete(_ context.Context, key string) error {
	err := c.call()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.values, key)
	}
	return err
}

// TestTheStateIsWhatDeliveredMessagesMakeOfIt lets messages fail in steps and at the output, be redelivered, dead-lettered, and filtered
// while others are written. Afterwards the state of each key contains the messages that ended well, each once, and with order_by in read
// order. When a result is reported to a source, the cache has the state.
func TestTheStateIsWhatDeliveredMessagesMakeOfIt(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { aRandomRun(t, rand.New(rand.NewPCG(seed, 9))) })
		})
	}
}

func aRandomRun(t *testing.T, r *rand.Rand) {
	const keys = 4
	var in []string
	for i := range 150 {
		in = append(in, fmt.Sprintf(`{"k":%d,"v":%d,"x":%d}`, r.IntN(keys), i, r.IntN(12)/11*3))
	}
	flaky = map[string]int{}
	var mu sync.Mutex // guards r
	left := 100
	chance := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n) == 0
	}
	cache := &slowCache{r: rand.New(rand.NewPCG(r.Uint64(), 1)), values: map[string][]byte{}, fails: r.IntN(2) * 2}
	src := steptest.NewBroker(in...)
	src.Told = func(payload string, f engine.Fate) {
		if f > engine.Delivered {
			return
		}
		var m struct{ K, V int }
		_ = json.Unmarshal([]byte(payload), &m)
		cache.mu.Lock()
		defer cache.mu.Unlock()
		if kept := string(cache.values[fmt.Sprintf("state:%d", m.K)]); !strings.Contains(kept, fmt.Sprintf(" %d ", m.V)) {
			t.Errorf("the source was told of %d, which the cache does not have: %s", m.V, kept)
		}
	}
	p := pipeline{
		src: src, cache: cache, workers: 1 + r.IntN(4), attempts: 1 + r.IntN(2),
		sink: &enginetest.Sink{Delay: time.Millisecond, Ordered: chance(2), Fail: func(string) error {
			if chance(5) && left > 0 {
				left--
				return errScripted
			}
			return nil
		}},
		steps: `[{"switch": [{"do": [{"state": {"cache": "c", "key": "k", WAIT "set": {"all": "(state(\"all\") ?? \" \") + string(v) + \" \""}}},
			{"test_flaky": "x"}]}], "retry": {"max_attempts": 2}}, {"filter": "v % 4 != 0"}]`,
	}
	wait := ""
	if chance(3) {
		wait = `"wait": true,`
	}
	p.steps = strings.Replace(p.steps, "WAIT", wait, 1)
	if chance(2) {
		p.orderBy = "k"
	}
	if chance(2) {
		p.dead = &enginetest.Sink{}
	}
	if chance(2) {
		p.batcher = `{"batch": {"size": 7, "timeout": "20ms"}, "output": "out"}`
	}
	t.Logf("workers %d, attempts %d, order %q, batcher %q, dead %v, wait %q, sequential %v, cache fails %d", p.workers, p.attempts,
		p.orderBy, p.batcher, p.dead != nil, wait, p.sink.Ordered, cache.fails)
	stop, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	p.run(t, stop)
	if src.Stuck() > 0 {
		t.Fatalf("%d messages wait for ever", src.Stuck())
	}
	got, expected := map[string][]string{}, map[string][]string{}
	for key, value := range cache.values {
		var o struct{ All string }
		if err := json.Unmarshal(value, &o); err != nil {
			t.Fatal(err)
		}
		got[key] = strings.Fields(o.All)
	}
	for _, payload := range src.Well() {
		var m struct{ K, V int }
		_ = json.Unmarshal([]byte(payload), &m)
		key := fmt.Sprintf("state:%d", m.K)
		expected[key] = append(expected[key], fmt.Sprint(m.V))
	}
	for key := range expected {
		if p.orderBy == "" {
			slices.Sort(expected[key])
			slices.Sort(got[key])
		}
		want(t, "the state of "+key, got[key], expected[key])
	}
	if len(got) != len(expected) {
		t.Errorf("%d keys, want %d", len(got), len(expected))
	}
}
