package twophase

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// local holds the claims of a cache that belongs to this process. They are only needed while several pipelines use
// the cache: a single one knows its messages in flight from its chains.
type local struct {
	several atomic.Bool // several pipelines use the cache

	mu     sync.Mutex // guards the fields below
	users  int        // number of pipelines
	claims map[string]held
}

// held is a claim.
type held struct {
	value []byte
	due   time.Time // when it expires
}

// localOf is the key of the claims of a cache.
type localOf struct{ cache Store }

func newLocal(shared *engine.Shared, cache Store) *local {
	return engine.Common(shared, localOf{cache}, func() *local { return &local{claims: map[string]held{}} })
}

// join changes the number of pipelines.
func (l *local) join(pipelines int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users += pipelines
	l.several.Store(l.users > 1)
}

// replaced records that a value was written, or deleted, in the cache.
func (l *local) replaced(key string) {
	if l != nil && l.several.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.claims, key)
	}
}

// swap implements [engine.SharedCache] for one key. get reads the cache.
func (l *local) swap(ctx context.Context, s *engine.CacheSwap, get func(context.Context, string) ([]byte, bool, error)) {
	if found := l.change(s); s.Done || found != nil {
		s.Found = found
		return
	}
	if s.Old != nil {
		return
	}
	// The claim is held while the cache is read, so that no other pipeline can pass.
	value, ok, err := get(ctx, s.Key)
	if ok {
		s.Found = append([]byte{}, value...)
	}
	if s.Err, s.Done = err, err == nil && !ok; !s.Done {
		l.change(&engine.CacheSwap{Key: s.Key, Old: s.New})
	}
}

// change changes a claim if it is as expected, otherwise it returns the current one. A new claim is not final yet,
// since the cache may have a value.
func (l *local) change(s *engine.CacheSwap) (found []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.claims[s.Key]
	if ok && !time.Now().Before(h.due) {
		ok = false
	}
	switch {
	case ok && !bytes.Equal(h.value, s.Old):
		return h.value
	case ok != (s.Old != nil):
		return nil
	}
	s.Done = ok
	if s.New == nil {
		delete(l.claims, s.Key)
	} else {
		l.claims[s.Key] = held{s.New, time.Now().Add(s.TTL)}
	}
	return nil
}
