// Package cachetest is the conformance suite of caches. Start at [Run].
package cachetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// New builds a cache from a component written as JSON, opens it, and closes it
// when the test ends.
func New(t testing.TB, component string) engine.Cache {
	t.Helper()
	c := enginetest.New(t, engine.Caches, component)
	if o, ok := c.(engine.Opener); ok {
		if err := o.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { Close(t, c) })
	return c
}

// Close closes a cache.
func Close(t testing.TB, c engine.Cache) {
	t.Helper()
	if o, ok := c.(engine.Closer); ok {
		if err := o.Close(context.WithoutCancel(t.Context())); err != nil { // it has ended in a clean-up
			t.Error(err)
		}
	}
}

// Get is the value of a key as text, or "none".
func Get(t testing.TB, c engine.Cache, key string) string {
	t.Helper()
	v, ok, err := c.Get(t.Context(), key)
	switch {
	case err != nil:
		t.Fatal(err)
	case !ok:
		return "none"
	}
	return string(v)
}

// Set sets a key to a text.
func Set(t testing.TB, c engine.Cache, key, value string, ttl time.Duration) {
	t.Helper()
	if err := c.Set(t.Context(), key, []byte(value), ttl); err != nil {
		t.Fatal(err)
	}
}

// Run runs the suite: make gives a cache that is open, empty and has no limits
// that matter.
func Run(t *testing.T, make func(t *testing.T) engine.Cache) {
	want := func(t *testing.T, c engine.Cache, key, value string) {
		t.Helper()
		if got := Get(t, c, key); got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	t.Run("a value can be set, replaced and deleted", func(t *testing.T) {
		c := make(t)
		want(t, c, "a", "none")
		Set(t, c, "a", "1", 0)
		want(t, c, "a", "1")
		Set(t, c, "a", "", 0)
		want(t, c, "a", "")
		if err := c.Set(t.Context(), "nil", nil, 0); err != nil {
			t.Error(err)
		}
		want(t, c, "nil", "")
		if added, err := c.Add(t.Context(), "nil", nil, 0); added || err != nil {
			t.Errorf("add of a key whose value is empty: %v, %v", added, err)
		}
		for range 2 {
			if err := c.Delete(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			want(t, c, "a", "none")
		}
	})
	t.Run("add tells whether there was none", func(t *testing.T) {
		c := make(t)
		for i, want := range []bool{true, false} {
			if got, err := c.Add(t.Context(), "a", fmt.Append(nil, i), 0); err != nil || got != want {
				t.Errorf("add %d: %v, %v", i, got, err)
			}
		}
		want(t, c, "a", "0")
	})
	t.Run("values grow old", func(t *testing.T) {
		c := make(t)
		Set(t, c, "short", "x", time.Nanosecond)
		Set(t, c, "long", "x", time.Hour)
		want(t, c, "short", "none")
		want(t, c, "long", "x")
		if added, err := c.Add(t.Context(), "short", []byte("y"), time.Hour); !added || err != nil {
			t.Errorf("add of an expired key: %v, %v", added, err)
		}
		want(t, c, "short", "y")
	})
	t.Run("keys and values are any bytes", func(t *testing.T) {
		c := make(t)
		Set(t, c, "\x00\xff", "\xff\x00", 0)
		want(t, c, "\x00\xff", "\xff\x00")
		want(t, c, "\x00", "none")
	})
	t.Run("of many adds at once one wins", func(t *testing.T) {
		c := make(t)
		var wins atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for k := range 50 {
					added, err := c.Add(t.Context(), fmt.Sprint("k", k), []byte("x"), 0)
					if err != nil {
						t.Error(err)
					}
					if added {
						wins.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if wins.Load() != 50 {
			t.Errorf("%d wins, want 50", wins.Load())
		}
	})
}
