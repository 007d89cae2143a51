package pipetest

import (
	"context"
	"sync"
	"time"
)

// cache replaces a cache outside the process. It starts empty.
type cache struct {
	mu      sync.Mutex // guards the field below
	entries map[string]entry
}

type entry struct {
	value []byte
	until time.Time // zero: for ever
}

func newCache() *cache { return &cache{entries: map[string]entry{}} }

// Get is the value of a key.
func (c *cache) Get(_ context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.get(key)
	return e.value, ok, nil
}

// Set keeps a value.
func (c *cache) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(key, value, ttl)
	return nil
}

// Add keeps a value if there is none.
func (c *cache) Add(_ context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.get(key); ok {
		return false, nil
	}
	c.set(key, value, ttl)
	return true, nil
}

// Delete forgets a key.
func (c *cache) Delete(_ context.Context, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
	return nil
}

func (c *cache) get(key string) (entry, bool) {
	e, ok := c.entries[key]
	if ok && !e.until.IsZero() && !time.Now().Before(e.until) {
		delete(c.entries, key)
		return entry{}, false
	}
	return e, ok
}

func (c *cache) set(key string, value []byte, ttl time.Duration) {
	e := entry{value: value}
	if ttl > 0 {
		e.until = time.Now().Add(ttl)
	}
	c.entries[key] = e
}
