package memory_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/internal/state/caches/memory"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
)

func TestMemoryConforms(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) engine.Cache { return cachetest.New(t, `{"memory": {}}`) })
}

func TestWhatWasNotUsedForLongestIsForgotten(t *testing.T) {
	c := cachetest.New(t, `{"memory": {"max_keys": 2}}`)
	cachetest.Set(t, c, "a", "1", 0)
	cachetest.Set(t, c, "b", "2", 0)
	cachetest.Get(t, c, "a")
	cachetest.Set(t, c, "c", "3", 0)
	for key, want := range map[string]string{"a": "1", "b": "none", "c": "3"} {
		if got := cachetest.Get(t, c, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestItBeginsWithItsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(t, `{"memory": {"ttl": "1m", "values": {"a": "{\"n\": 1}", "b": "no JSON"}}}`)
		for key, want := range map[string]string{"a": `{"n": 1}`, "b": `"no JSON"`, "c": "none"} {
			if got := cachetest.Get(t, c, key); got != want {
				t.Errorf("%s is %s, want %s", key, got, want)
			}
		}
		time.Sleep(time.Minute)
		if got := cachetest.Get(t, c, "a"); got != "none" {
			t.Errorf("a is still there after its ttl: %s", got)
		}
	})
}

func TestBytesAreBounded(t *testing.T) {
	c := cachetest.New(t, `{"memory": {"max_bytes": "100"}}`)
	for range 3 { // replacing a value does not count it twice
		cachetest.Set(t, c, "a", strings.Repeat("x", 40), 0)
	}
	cachetest.Set(t, c, "b", strings.Repeat("x", 40), 0)
	if got := cachetest.Get(t, c, "a"); len(got) != 40 {
		t.Errorf("a is %q though there is room", got)
	}
	cachetest.Set(t, c, "c", strings.Repeat("x", 90), 0)
	for _, key := range []string{"a", "b"} {
		if got := cachetest.Get(t, c, key); got != "none" {
			t.Errorf("%s is %q, want none: c took its room", key, got)
		}
	}
	err := c.Set(t.Context(), "d", make([]byte, 200), 0)
	if err == nil || !strings.Contains(err.Error(), "raise its `max_bytes`") {
		t.Errorf("a value larger than the cache: %v", err)
	}
	if got := cachetest.Get(t, c, "c"); len(got) != 90 {
		t.Errorf("c is %q: what was refused must not push out others", got)
	}
}

func TestTheCacheHasATimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(t, `{"memory": {"ttl": "1m", "max_keys": 10}}`)
		cachetest.Set(t, c, "own", "1", 0)
		cachetest.Set(t, c, "given", "1", time.Hour)
		time.Sleep(time.Minute - time.Nanosecond)
		if got := cachetest.Get(t, c, "own"); got != "1" {
			t.Errorf("own is %q before its time", got)
		}
		time.Sleep(time.Nanosecond)
		for key, want := range map[string]string{"own": "none", "given": "1"} {
			if got := cachetest.Get(t, c, key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	})
}

func TestWhatHasExpiredMakesRoomFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(t, `{"memory": {"max_keys": 4}}`)
		for i := range 3 {
			cachetest.Set(t, c, fmt.Sprint("old", i), "x", time.Second)
		}
		cachetest.Set(t, c, "kept", "x", 0)
		time.Sleep(2 * time.Second)
		for i := range 3 {
			cachetest.Set(t, c, fmt.Sprint("new", i), "x", 0)
		}
		if got := cachetest.Get(t, c, "kept"); got != "x" {
			t.Errorf("kept is %q, want x", got)
		}
	})
}
