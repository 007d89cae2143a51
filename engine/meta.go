package engine

import (
	"iter"
	"slices"
)

// Meta is the metadata of a message: names and values beside the payload. It never changes: methods return a changed
// copy, so that many messages can share their metadata. Values are nil, bool, int, float64, string, time.Time, []any or
// map[string]any.
type Meta struct {
	shared *metaFields
	index  int // the value of the field that shared.index names
}

type metaFields struct {
	names  []string
	values []any
	own    int        // how many of the first ones are the input's own
	index  string     // the name whose value is Meta.index
	source MetaSource // has everything, for message number Meta.index; nil: the fields above have it
}

// TraceContext are the names of the metadata that says which trace a message belongs to, as the W3C defines them. Inputs read
// them from the headers, attributes or fields of a message, and outputs send them on.
var TraceContext = [...]string{"traceparent", "tracestate", "baggage"}

// IsTraceContext reports whether a name is one of [TraceContext].
func IsTraceContext(name string) bool { return slices.Contains(TraceContext[:], name) }

// MetaSource makes the metadata of several messages on demand, for inputs with much metadata of which most pipelines use
// little. It must be a pointer, since sources are compared with ==. It never changes, and is safe for concurrent use.
type MetaSource interface {
	// Get returns a value of message i, and whether there is one.
	Get(i int, name string) (any, bool)
	// Meta returns all metadata of message i.
	Meta(i int) Meta
}

// MetaFrom returns the metadata of a source's first message. [Meta.At] returns that of another.
func MetaFrom(s MetaSource) Meta { return Meta{shared: &metaFields{source: s}} }

// Source returns the source of m and the number of its message there; nil: m has no source, or has been changed.
func (m Meta) Source() (s MetaSource, i int) {
	if m.shared == nil {
		return nil, 0
	}
	return m.shared.source, m.index
}

// made is m with names and values, which are made if m has a source.
func (m Meta) made() Meta {
	if m.shared != nil && m.shared.source != nil {
		return m.shared.source.Meta(m.index)
	}
	return m
}

// MetaOf returns metadata with many values at once, for inputs whose messages have more than a few of their own. The first
// own values are the input's own (see [Meta.Own]). Names must differ, and neither slice may change afterwards.
func MetaOf(names []string, values []any, own int) Meta {
	return Meta{shared: &metaFields{names: names, values: values, own: own}}
}

// With returns the metadata with one value added or replaced. It copies, so an input should call it once per file or
// connection, not once per message.
func (m Meta) With(name string, value any) Meta {
	m = m.made()
	f := m.copy()
	if f.index == name {
		f.index = ""
	}
	if i := slices.Index(f.names, name); i >= f.own {
		f.values[i] = value
		return Meta{f, m.index}
	}
	f.remove(name)
	f.names, f.values = append(f.names, name), append(f.values, value)
	return Meta{f, m.index}
}

// Own marks all present values as the input's own: facts about where the message came from, which outputs do not pass on
// as headers (see [Meta.Added]).
func (m Meta) Own() Meta {
	m = m.made()
	f := m.copy()
	f.own = len(f.names)
	return Meta{f, m.index}
}

// WithOwn is like [Meta.With], and marks this value alone as the input's own.
func (m Meta) WithOwn(name string, value any) Meta {
	m = m.made()
	f := m.copy()
	if f.index == name {
		f.index = ""
	}
	f.remove(name)
	f.names, f.values = slices.Insert(f.names, f.own, name), slices.Insert(f.values, f.own, value)
	f.own++
	return Meta{f, m.index}
}

// Added yields the values that are not the input's own: those that steps have set, or that the producer of the message
// has sent.
func (m Meta) Added() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		m := m.made()
		if m.shared == nil {
			return
		}
		for i := m.shared.own; i < len(m.shared.names); i++ {
			if !yield(m.shared.names[i], m.shared.values[i]) {
				return
			}
		}
	}
}

// WithIndex returns the metadata with a name for the number that [Meta.At] sets per message without a copy, such as a line
// number or an offset.
func (m Meta) WithIndex(name string) Meta {
	f := m.without(name).copy()
	f.index = name
	return Meta{shared: f}
}

// At returns the metadata with a value for the name of [Meta.WithIndex].
func (m Meta) At(index int) Meta { return Meta{m.shared, index} }

// Index is the number of [Meta.At].
func (m Meta) Index() int { return m.index }

// Without returns the metadata without a name.
func (m Meta) Without(name string) Meta {
	if _, ok := m.Get(name); !ok {
		return m
	}
	return m.without(name)
}

func (m Meta) without(name string) Meta {
	m = m.made()
	f := m.copy()
	if f.index == name {
		f.index = ""
	}
	f.remove(name)
	return Meta{f, m.index}
}

func (f *metaFields) remove(name string) {
	i := slices.Index(f.names, name)
	if i < 0 {
		return
	}
	f.names, f.values = slices.Delete(f.names, i, i+1), slices.Delete(f.values, i, i+1)
	if i < f.own {
		f.own--
	}
}

// Get returns a value, and whether there is one.
func (m Meta) Get(name string) (any, bool) {
	f := m.shared
	if f == nil {
		return nil, false
	}
	if f.source != nil {
		return f.source.Get(m.index, name)
	}
	if f.index == name && name != "" {
		return m.index, true
	}
	for i, n := range f.names {
		if n == name {
			return f.values[i], true
		}
	}
	return nil, false
}

// Len is the number of names.
func (m Meta) Len() int {
	m = m.made()
	if m.shared == nil {
		return 0
	}
	n := len(m.shared.names)
	if m.shared.index != "" {
		n++
	}
	return n
}

// All yields names and values in the order in which they were set.
func (m Meta) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		m := m.made()
		if m.shared == nil {
			return
		}
		for i, n := range m.shared.names {
			if !yield(n, m.shared.values[i]) {
				return
			}
		}
		if m.shared.index != "" {
			yield(m.shared.index, m.index)
		}
	}
}

// Map returns a copy of all names and values.
func (m Meta) Map() map[string]any {
	all := make(map[string]any, m.Len())
	for n, v := range m.All() {
		all[n] = v
	}
	return all
}

func (m Meta) copy() *metaFields {
	if m.shared == nil {
		return &metaFields{}
	}
	f := *m.shared
	f.names, f.values = slices.Clone(f.names), slices.Clone(f.values)
	return &f
}
