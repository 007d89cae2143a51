package schema

import (
	"iter"
	"reflect"
)

// Map is a mapping that keeps the order in which it was written.
type Map[V any] struct {
	entries []Entry[V]
}

// Entry is one pair of a [Map].
type Entry[V any] struct {
	Key   string
	Value V
	Pos   Pos // of the key
}

// MapOf makes a map of entries, for tests and Go users.
func MapOf[V any](entries ...Entry[V]) Map[V] { return Map[V]{entries} }

// All yields the entries in the order written.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range m.entries {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Entries returns the pairs in the order written. The caller must not change them.
func (m Map[V]) Entries() []Entry[V] { return m.entries }

// Len returns the number of entries.
func (m Map[V]) Len() int { return len(m.entries) }

// Get returns the value of a key.
func (m Map[V]) Get(key string) (V, bool) {
	for _, e := range m.entries {
		if e.Key == key {
			return e.Value, true
		}
	}
	var zero V
	return zero, false
}

// ordered is a *Map of any element, for code that only has its reflect.Type.
type ordered interface {
	Len() int
	elem() reflect.Type
	reset(room int)
	add(key string, value reflect.Value, pos Pos)
	each(yield func(key string, value reflect.Value))
}

func (m *Map[V]) elem() reflect.Type { return reflect.TypeFor[V]() }

func (m *Map[V]) reset(room int) { m.entries = make([]Entry[V], 0, room) }

func (m *Map[V]) add(key string, value reflect.Value, pos Pos) {
	e := Entry[V]{Key: key, Pos: pos}
	reflect.ValueOf(&e.Value).Elem().Set(value)
	m.entries = append(m.entries, e)
}

func (m *Map[V]) each(yield func(key string, value reflect.Value)) {
	for i := range m.entries {
		yield(m.entries[i].Key, reflect.ValueOf(&m.entries[i].Value).Elem())
	}
}
