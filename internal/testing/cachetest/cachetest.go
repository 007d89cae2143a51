// Package cachetest is the conformance suite of caches. Start at [Run].
package cachetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		for range 2 {
			if err := c.Delete(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			want(t, c, "a", "none")
		}
	})
	t.Run("values grow old", func(t *testing.T) {
		c := make(t)
		Set(t, c, "short", "x", time.Nanosecond)
		Set(t, c, "long", "x", time.Hour)
		want(t, c, "short", "none")
		want(t, c, "long", "x")
		Set(t, c, "short", "y", time.Hour)
		want(t, c, "short", "y")
	})
	t.Run("keys and values are any bytes", func(t *testing.T) {
		c := make(t)
		Set(t, c, "\x00\xff", "\xff\x00", 0)
		want(t, c, "\x00\xff", "\xff\x00")
		want(t, c, "\x00", "none")
	})
}

// File is the suite of caches that keep values in a file: it is deleted, replaced and put into
// a full disk while it is open. component gives one for a path.
func File(t *testing.T, component func(path string) string) {
	in := func(t *testing.T, name string) string { return filepath.Join(t.TempDir(), "d", name) }
	want := func(t *testing.T, path string, c engine.Cache, values map[string]string) {
		t.Helper()
		for key, value := range values {
			if got := Get(t, c, key); got != value {
				t.Errorf("%s is %q, want %q", key, got, value)
			}
		}
		Close(t, c)
		again := New(t, component(path))
		for key, value := range values {
			if got := Get(t, again, key); got != value {
				t.Errorf("after a restart, %s is %q, want %q", key, got, value)
			}
		}
	}
	for name, does := range map[string]func(path string) error{
		"renamed":                     func(path string) error { return os.Rename(path, path+".1") },
		"deleted":                     os.Remove,
		"in a folder that is deleted": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name+", and again before the end", func(t *testing.T) {
			path := in(t, "cache")
			c := New(t, component(path))
			Set(t, c, "before", "1", 0)
			if err := does(path); err != nil {
				t.Fatal(err)
			}
			Set(t, c, "after", "2", 0)
			Set(t, c, "more", "3", 0)
			if err := does(path); err != nil {
				t.Fatal(err)
			}
			want(t, path, c, map[string]string{"before": "1", "after": "2", "more": "3"})
		})
	}
	t.Run("replaced", func(t *testing.T) {
		path, other := in(t, "cache"), in(t, "cache")
		restored := New(t, component(other))
		Set(t, restored, "there", "0", 0)
		Close(t, restored)
		c := New(t, component(path))
		Set(t, c, "before", "1", 0)
		if err := os.Rename(other, path); err != nil {
			t.Fatal(err)
		}
		Set(t, c, "after", "2", 0)
		want(t, path, c, map[string]string{"before": "none", "there": "0", "after": "2"})
	})
	t.Run("on a full disk", func(t *testing.T) {
		enginetest.InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
			for room := int64(0); room < 1<<20; room += 4<<10 + 1<<9 {
				path := in(t, "cache")
				c := New(t, component(path))
				Set(t, c, "before", "1", 0)
				limit(room)
				values, failed := map[string]string{"before": "1"}, 0
				for i := range 20 {
					key, value := fmt.Sprint("k", i), strings.Repeat("x", 5000)
					if err := c.Set(t.Context(), key, []byte(value), 0); err == nil {
						values[key] = value
					} else if e := engine.ErrorOf(err, engine.Transient); e.Class != engine.Transient {
						t.Errorf("class %s: %v", e.Class, err)
					} else {
						failed++
					}
				}
				limit(-1)
				Set(t, c, "after", "2", 0)
				values["after"] = "2"
				want(t, path, c, values)
				if t.Failed() {
					t.Fatalf("with room for %d bytes", room)
				}
				if failed == 0 {
					return
				}
			}
		})
	})
}
