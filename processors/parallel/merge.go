package parallel

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/components/inner"
)

const (
	// depth is how deep objects are compared field by field. Each level reads everything below it.
	depth = 32

	// few is how many changes are made in place. Editing leaves everything else as it is, but each edit searches the
	// object. With more changes, the object is rewritten.
	few = 64
)

// payload is the body of a message.
type payload struct {
	text   []byte
	object bool // a document that is an object
}

func payloadOf(m *engine.Message) payload {
	text := m.Bytes()
	return payload{text, m.Doc().Valid() == nil && doc.Kind(trim(text)) == doc.Object}
}

func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// merge applies to now the changes that turned before into after. Unless all three are objects, the payload is
// replaced.
func merge(now, before, after payload) payload {
	switch {
	case now.object && before.object && after.object:
		return payload{mergeObject(now.text, trim(before.text), trim(after.text), depth), true}
	case same(before.text, after.text):
		return now
	}
	return after
}

// mergeObject applies to the object now the changes from before to after. All three are valid.
func mergeObject(now, before, after []byte, levels int) []byte {
	was, is := fieldsOf(before), fieldsOf(after)
	var here *fields    // of now; set on first use
	var changes []field // raw is nil if the field was removed
	for _, x := range was.list {
		if is.find(x.key) < 0 {
			changes = append(changes, field{key: x.key})
		}
	}
	for _, x := range is.list {
		raw, old := x.raw, was.get(x.key)
		if bytes.Equal(old, raw) {
			continue
		}
		if doc.Kind(raw) == doc.Object && levels > 0 {
			if here == nil {
				here = fieldsOf(trim(now))
			}
			raw = inside(here.get(x.key), old, raw, levels-1)
		} else if same(old, raw) {
			continue
		}
		if raw != nil {
			changes = append(changes, field{x.key, raw})
		}
	}
	switch {
	case len(changes) == 0:
		return now
	case len(changes) <= few:
		return edit(now, changes)
	case here == nil:
		here = fieldsOf(trim(now))
	}
	return here.write(changes)
}

// inside merges one field, whose value is now, if a branch turned the object before into the object after. It returns
// nil if nothing changes.
func inside(now, before, after []byte, levels int) []byte {
	switch doc.Kind(before) {
	case doc.Object:
	case doc.Missing, doc.Null: // this branch created the object; another branch may have done so, too
		before = []byte("{}")
		if doc.Kind(now) != doc.Object {
			return after
		}
	default:
		return after
	}
	switch doc.Kind(now) {
	case doc.Object:
	case doc.Missing, doc.Null:
		now = []byte("{}")
	default:
		if same(before, after) {
			return nil
		}
		return after
	}
	merged := mergeObject(now, before, after, levels)
	if inner.Same(merged, now) {
		return nil
	}
	return merged
}

// same reports whether two values are equal, however they are spelt.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okX := canonical(a)
	y, okY := canonical(b)
	return okX && okY && bytes.Equal(x, y)
}

// canonical returns a text that equal values share: sorted keys, shortest numbers.
func canonical(raw []byte) ([]byte, bool) {
	if len(raw) == 0 {
		return nil, false
	}
	v, err := doc.Decode(raw)
	if err != nil {
		return nil, false
	}
	text, err := doc.Append(nil, v)
	return text, err == nil
}

// edit makes changes in place.
func edit(object []byte, changes []field) []byte {
	var d doc.Doc
	d.Reset(object, nil)
	for _, c := range changes {
		at := doc.MakePath(c.key)
		// Neither can fail: the object is valid, and the value comes from the same depth.
		if c.raw == nil {
			_ = d.Unset(at)
		} else {
			_ = d.SetRaw(at, c.raw)
		}
	}
	return d.Bytes()
}

// fields are the fields of an object, in order and without duplicates. raw is nil for a removed field.
type fields struct {
	list []field
	at   map[string]int // index by name, in an object with many fields
}

type field struct {
	key string
	raw []byte
}

// many is the number of fields from which fields uses an index.
const many = 16

func fieldsOf(object []byte) *fields {
	f := &fields{list: make([]field, 0, many)}
	for key, raw := range doc.Members(object) {
		f.put(key, raw) // of duplicate keys the last counts
	}
	return f
}

func (f *fields) put(key string, raw []byte) {
	if i := f.find(key); i >= 0 {
		f.list[i].raw = raw
		return
	}
	f.list = append(f.list, field{key, raw})
	switch n := len(f.list); {
	case f.at != nil:
		f.at[key] = n - 1
	case n > many:
		f.at = make(map[string]int, 2*n)
		for i := range f.list {
			f.at[f.list[i].key] = i
		}
	}
}

func (f *fields) find(key string) int {
	if f.at != nil {
		if i, ok := f.at[key]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(f.list, func(x field) bool { return x.key == key })
}

// get returns the value of a field, or nil.
func (f *fields) get(key string) []byte {
	if i := f.find(key); i >= 0 {
		return f.list[i].raw
	}
	return nil
}

// write returns the object with changes applied.
func (f *fields) write(changes []field) []byte {
	for _, c := range changes {
		f.put(c.key, c.raw)
	}
	out := []byte{'{'}
	for _, x := range f.list {
		if x.raw == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = doc.Append(out, x.key) // text always has a JSON form
		out = append(append(out, ':'), x.raw...)
	}
	return append(out, '}')
}

// mergeMeta applies to metadata the changes from before to after.
func mergeMeta(now, before, after engine.Meta) engine.Meta {
	if before == after {
		return now
	}
	for name := range before.All() {
		if _, stays := after.Get(name); !stays {
			now = now.Without(name)
		}
	}
	added := map[string]bool{}
	for name := range before.Added() {
		added[name] = true
	}
	own := map[string]bool{}
	for name := range after.All() {
		own[name] = true
	}
	for name := range after.Added() {
		delete(own, name)
	}
	for name, v := range after.All() {
		old, was := before.Get(name)
		// A name of the input becomes the message's own when a step sets it.
		if !was || !reflect.DeepEqual(old, v) || !own[name] && !added[name] {
			now = now.With(name, v)
		}
	}
	return now
}

// mergeVars applies to vars the changes from before to after.
func mergeVars(now, before, after engine.Vars) engine.Vars {
	if before == after {
		return now
	}
	for name := range before.All() {
		if _, stays := after.Get(name); !stays {
			now = now.With(name, nil)
		}
	}
	for name, v := range after.All() {
		if old, was := before.Get(name); !was || !reflect.DeepEqual(old, v) {
			now = now.With(name, v)
		}
	}
	return now
}
