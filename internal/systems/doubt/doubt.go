// Package doubt remembers writes in doubt: they failed, but the system may have carried them out, because only the answer
// was lost. If the next attempt finds the data already there, the output compares it with its own. Start at [Set].
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

// maxKeys bounds the keys of a Set. With object keys, a full Set takes about 10 MB.
const maxKeys = 100_000

// Note remembers the keys of a write that ended with err if the write is in doubt. Otherwise, it forgets the keys.
func (s *Set[K]) Note(err error, keys ...K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		switch {
		case !MayHaveWritten(err):
			delete(s.keys, k)
			continue
		case s.keys == nil || len(s.keys) >= maxKeys:
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

// MayHaveWritten reports whether a write that failed with err is in doubt. It is if the class of err is transient or timeout.
func MayHaveWritten(err error) bool {
	if err == nil {
		return false
	}
	class := engine.ErrorOf(err, engine.Transient).Class
	return class == engine.Transient || class == engine.Timeout
}
