package cachetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Swap changes one value, and returns what came of it: "done", "found X" or "found nothing".
func Swap(t testing.TB, c engine.Cache, key, was, is string, ttl time.Duration) string {
	t.Helper()
	all := []engine.CacheSwap{{Key: key, TTL: ttl}}
	if was != "" {
		all[0].Old = []byte(was)
	}
	if is != "" {
		all[0].New = []byte(is)
	}
	c.(engine.SharedCache).Swap(t.Context(), all)
	return outcome(t, all[0])
}

func outcome(t testing.TB, s engine.CacheSwap) string {
	t.Helper()
	switch {
	case s.Err != nil:
		t.Fatal(s.Err)
	case s.Done:
		return "done"
	case s.Found == nil:
		return "found nothing"
	}
	return "found " + string(s.Found)
}

// Shared is the suite of caches that other processes use: two gives what two processes open of an empty one.
func Shared(t *testing.T, two func(t *testing.T) (a, b engine.Cache)) {
	is := func(t *testing.T, c engine.Cache, key, want string) {
		t.Helper()
		if got := Get(t, c, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	t.Run("a value is changed if it is as expected", func(t *testing.T) {
		a, b := two(t)
		for _, step := range []struct {
			c             engine.Cache
			from, to      string
			outcome, then string
		}{
			{a, "", "\x00a", "done", "\x00a"},
			{b, "", "b", "found \x00a", "\x00a"},
			{b, "x", "b", "found \x00a", "\x00a"},
			{b, "x", "", "found \x00a", "\x00a"},
			{a, "\x00a", "\x00a", "done", "\x00a"},
			{a, "\x00a", "c", "done", "c"},
			{b, "c", "", "done", "none"},
			{b, "c", "", "found nothing", "none"},
			{b, "c", "d", "found nothing", "none"},
			{b, "", "d", "done", "d"},
		} {
			if got := Swap(t, step.c, "k", step.from, step.to, time.Hour); got != step.outcome {
				t.Errorf("from %q to %q: %s, want %s", step.from, step.to, got, step.outcome)
			}
			is(t, a, "k", step.then)
			is(t, b, "k", step.then)
		}
	})
	t.Run("a value that is too old is none", func(t *testing.T) {
		a, b := two(t)
		if got := Swap(t, a, "k", "", "a", time.Millisecond); got != "done" {
			t.Fatal(got)
		}
		until(t, "the value has expired", func() bool { return Get(t, b, "k") == "none" })
		for _, step := range [][]string{{"a", "b", "found nothing"}, {"a", "", "found nothing"}, {"", "b", "done"}} {
			if got := Swap(t, b, "k", step[0], step[1], time.Hour); got != step[2] {
				t.Errorf("from %q to %q: %s, want %s", step[0], step[1], got, step[2])
			}
		}
		is(t, a, "k", "b")
	})
	t.Run("an empty value is one, and writes and deletions count", func(t *testing.T) {
		a, b := two(t)
		Set(t, a, "k", "", 0)
		if got := Swap(t, b, "k", "", "b", time.Hour); got != "found " {
			t.Errorf("with an empty value: %s", got)
		}
		if err := a.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if got := Swap(t, b, "k", "", "b", time.Hour); got != "done" {
			t.Errorf("after a deletion: %s", got)
		}
		Set(t, a, "k", "true", 0)
		if got := Swap(t, b, "k", "b", "", time.Hour); got != "found true" {
			t.Errorf("after a write: %s", got)
		}
		is(t, b, "k", "true")
	})
	t.Run("of many swaps at once one wins", func(t *testing.T) {
		a, b := two(t)
		const keys = 50
		var wins atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				all := make([]engine.CacheSwap, keys)
				for k := range all {
					all[k] = engine.CacheSwap{Key: fmt.Sprint("k", k), New: fmt.Append(nil, i), TTL: time.Hour}
				}
				[]engine.Cache{a, b}[i%2].(engine.SharedCache).Swap(t.Context(), all)
				for k, s := range all {
					switch got := outcome(t, s); {
					case got == "done":
						wins.Add(1)
					case got != "found "+Get(t, a, all[k].Key):
						t.Errorf("%s: %s", all[k].Key, got)
					}
				}
			})
		}
		wg.Wait()
		if wins.Load() != keys {
			t.Errorf("%d wins, want %d", wins.Load(), keys)
		}
	})
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(late) {
			t.Fatalf("not within ten seconds: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// Server is a fake of a system with values that processes share. Its fields are set before it is used.
type Server struct {
	Latency time.Duration
	// Loses says whether the answer to a call is lost after the call has been carried out. It is called with a lock.
	Loses func() bool

	mu     sync.Mutex // guards the fields below
	values map[string]entry
	trips  int
	swaps  int
}

type entry struct {
	value []byte
	due   time.Time // zero: never
}

// Trips are the round trips that processes have made to change values with Swap, and the values that they wanted to
// change.
func (s *Server) Trips() (trips, swaps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trips, s.swaps
}

// get is the value of a key, or nil.
func (s *Server) get(key string) []byte {
	e, ok := s.values[key]
	if !ok || !e.due.IsZero() && !time.Now().Before(e.due) {
		return nil
	}
	return e.value
}

// set writes a value; nil deletes it.
func (s *Server) set(key string, value []byte, ttl time.Duration) {
	if s.values == nil {
		s.values = map[string]entry{}
	}
	e := entry{value: value}
	if ttl > 0 {
		e.due = time.Now().Add(ttl)
	}
	s.values[key] = e
}

// Process is what one process has of a server: an [engine.Cache] and [engine.SharedCache].
type Process struct {
	Server *Server
	cut    atomic.Bool
}

// Cut has all calls fail from now on, or work again.
func (p *Process) Cut(yes bool) { p.cut.Store(yes) }

// call carries out a call.
func (p *Process) call(do func(s *Server)) error {
	time.Sleep(p.Server.Latency)
	if p.cut.Load() {
		return errAway
	}
	p.Server.mu.Lock()
	defer p.Server.mu.Unlock()
	do(p.Server)
	if p.Server.Loses != nil && p.Server.Loses() {
		return errAway
	}
	return nil
}

// Get reads a value.
func (p *Process) Get(_ context.Context, key string) (value []byte, ok bool, err error) {
	err = p.call(func(s *Server) { value = s.get(key) })
	return value, value != nil, err
}

// Set writes a value.
func (p *Process) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	return p.call(func(s *Server) { s.set(key, append([]byte{}, value...), ttl) })
}

// Delete deletes a value.
func (p *Process) Delete(_ context.Context, key string) error {
	return p.call(func(s *Server) { s.set(key, nil, 0) })
}

// Swap changes values.
func (p *Process) Swap(_ context.Context, all []engine.CacheSwap) {
	err := p.call(func(s *Server) {
		s.trips++
		s.swaps += len(all)
		for i := range all {
			x := &all[i]
			found := s.get(x.Key)
			if string(found) != string(x.Old) || (found == nil) != (x.Old == nil) {
				x.Found = found
				continue
			}
			x.Done = true
			s.set(x.Key, x.New, x.TTL)
		}
	})
	for i := range all {
		if all[i].Err = err; err != nil {
			all[i].Done, all[i].Found = false, nil
		}
	}
}
