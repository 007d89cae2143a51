// Package memory is the cache `memory`: it keeps the most recently used values in this process. Start at [Config].
package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Config configures the memory cache.
type Config struct {
	MaxKeys  int           `yaml:"max_keys" check:"min=1" default:"100000" doc:"Maximum number of keys; the least recently used are evicted first."`
	MaxBytes schema.Size   `yaml:"max_bytes" check:"min=1" default:"64MiB" doc:"Maximum memory of keys and values together; a larger value is rejected."`
	TTL      time.Duration `yaml:"ttl" check:"min=1ms" doc:"How long a value is kept if its write sets no time; no limit by default."`

	Values schema.Map[string] `yaml:"values" doc:"Initial values by key, as JSON; anything that is not JSON is text. ttl applies to them, too."`
}

// Words are words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"size": "write `max_keys`", "capacity": "write `max_keys`", "default_ttl": "write `ttl`"}
}

const help = `
Keeps values in memory; a restart forgets them. All pipelines of the process that
name the cache share it.

    processors:
      - cache: {get: users, key: user_id, into: user}
      - cache: {get: plans, key: user.plan, into: plan}
    resources:
      caches:
        users: {memory: {max_keys: 10000, ttl: 5m}}
        plans: {memory: {values: {free: '{"limit": 10}', pro: '{"limit": 1000}'}}}
`

func init() {
	engine.Register(engine.Caches, "memory", help, Config{},
		func(c Config, _ engine.Env) (engine.Cache, error) { return New(c) })
}

// New makes a cache, also for other packages.
func New(c Config) (engine.Cache, error) {
	m := &memory{max: int(c.MaxBytes), ttl: c.TTL}
	lru, err := simplelru.NewLRU(c.MaxKeys, func(key string, e entry) { m.bytes -= size(key, e.value) })
	m.lru = lru
	if err != nil {
		return nil, err
	}
	for key, text := range c.Values.All() {
		value := []byte(text)
		if !json.Valid(value) {
			if value, err = json.Marshal(text); err != nil {
				return nil, fmt.Errorf("value of %q: %w", key, err)
			}
		}
		if err := m.set(key, value, 0, time.Now()); err != nil {
			return nil, fmt.Errorf("value of %q: %w", key, err)
		}
	}
	return m, nil
}

type memory struct {
	max int // in bytes
	ttl time.Duration

	mu    sync.Mutex // guards the fields below
	lru   *simplelru.LRU[string, entry]
	bytes int
}

type entry struct {
	value []byte
	due   time.Time // zero: never
}

func size(key string, value []byte) int { return len(key) + len(value) }

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.get(key, time.Now())
	return e.value, ok, nil
}

func (m *memory) get(key string, now time.Time) (entry, bool) {
	e, ok := m.lru.Get(key)
	if ok && e.past(now) {
		m.lru.Remove(key)
		return entry{}, false
	}
	return e, ok
}

func (e entry) past(now time.Time) bool { return !e.due.IsZero() && !now.Before(e.due) }

func (m *memory) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set(key, value, ttl, time.Now())
}

func (m *memory) set(key string, value []byte, ttl time.Duration, now time.Time) error {
	if n := size(key, value); n > m.max {
		return engine.Errorf(engine.Permanent, "a value of %d bytes is larger than the cache (raise its `max_bytes`)",
			n)
	}
	e := entry{value: value}
	if ttl = cmp.Or(ttl, m.ttl); ttl > 0 {
		e.due = now.Add(ttl)
	}
	m.lru.Remove(key) // Add would not report a replaced value
	m.bytes += size(key, value)
	m.lru.Add(key, e)
	for m.bytes > m.max {
		m.lru.RemoveOldest()
	}
	m.sweep(now)
	return nil
}

// sweep removes expired keys among the least recently used ones: a few at a time, but more than are added.
func (m *memory) sweep(now time.Time) {
	for range 2 {
		if _, e, ok := m.lru.GetOldest(); !ok || !e.past(now) {
			return
		}
		m.lru.RemoveOldest()
	}
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(key)
	return nil
}
