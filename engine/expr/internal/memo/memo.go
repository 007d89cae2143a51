// Package memo keeps what was worked out before: what messages bring again and again in [Map], and regular expressions of
// the program in [Regexp].
package memo

import "sync"

// Map keeps at most so many values that were made from parts of messages. A full map starts over, so messages can't make it
// large, and keys in use come back at once. It is safe for concurrent use.
type Map[K comparable, V any] struct {
	Most int // values; set before the first Put

	mu sync.RWMutex // guards the field below
	by map[K]V
}

// Get is the value of a key, if it is kept.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok = m.by[key]
	return v, ok
}

// Put keeps v. The key must not refer to the bytes of a payload, which are overwritten: clone it.
func (m *Map[K, V]) Put(key K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil || len(m.by) >= m.Most {
		m.by = map[K]V{}
	}
	m.by[key] = v
}
