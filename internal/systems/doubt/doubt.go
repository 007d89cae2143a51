// Package doubt remembers writes in doubt: they failed, but the system may have carried them out, because only the answer
// was lost. The next attempt finds what it is about to write, and the output compares. Start at [Set].
package doubt

import (
	"sync"

	"github.com/flowd-io/flowd/engine"
)

// Set has the keys of writes in doubt. It is bounded: when it is full, it forgets all keys. The zero Set is empty and ready.
// Its methods may be called from any goroutine.
type Set[K comparable] struct {
	mu   sync.Mutex // guards the field below
	keys map[K]struct{}
}

// most bounds the keys of a Set: about 10 MB with those of objects.
const most = 100_000

// Note remembers the keys of a write that ended with err if it is in doubt, and otherwise forgets them.
func (s *Set[K]) Note(err error, keys ...K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		switch {
		case !Leaves(err):
			delete(s.keys, k)
			continue
		case s.keys == nil || len(s.keys) >= most:
			s.keys = map[K]struct{}{}
		}
		s.keys[k] = struct{}{}
	}
}

// Has reports whether the write of a key is in doubt.
func (s *Set[K]) Has(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.keys[key]
	return has
}

// IsEmpty reports whether no write is in doubt.
func (s *Set[K]) IsEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys) == 0
}

// Leaves reports whether err leaves a write in doubt: its class is transient or timeout.
func Leaves(err error) bool {
	if err == nil {
		return false
	}
	class := engine.ErrorOf(err, engine.Transient).Class
	return class == engine.Transient || class == engine.Timeout
}
