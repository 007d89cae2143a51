package jsonschema

// marks record which parts of an object or list keywords have evaluated. unevaluatedProperties and unevaluatedItems
// apply to the rest.
type marks struct {
	everything bool
	first      int // items
	keys       map[string]bool
	items      map[int]bool
}

func (m *marks) key(key string) {
	if m == nil || m.everything {
		return
	}
	if m.keys == nil {
		m.keys = map[string]bool{}
	}
	m.keys[key] = true
}

func (m *marks) item(i int) {
	if m == nil || m.everything {
		return
	}
	if m.items == nil {
		m.items = map[int]bool{}
	}
	m.items[i] = true
}

func (m *marks) upTo(i int) {
	if m != nil {
		m.first = max(m.first, i)
	}
}

func (m *marks) all() {
	if m != nil {
		m.everything = true
	}
}

// merge adds the marks of o to m.
func (c *checking) merge(m, o *marks) {
	if m == nil || o == nil || !c.spend(len(o.keys)+len(o.items)) {
		return
	}
	m.everything = m.everything || o.everything
	m.first = max(m.first, o.first)
	for key := range o.keys {
		m.key(key)
	}
	for i := range o.items {
		m.item(i)
	}
}

// fresh returns marks for a schema whose marks only count if the value matches it.
func (m *marks) fresh() *marks {
	if m == nil {
		return nil
	}
	return &marks{}
}
