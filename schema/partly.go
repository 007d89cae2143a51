package schema

import (
	"reflect"
	"slices"
)

// unsure marks a field whose value is not what was meant.
func (r *recordDecoder) unsure(f *field) {
	if f != nil && !slices.Contains(r.unsures, f) {
		r.unsures = append(r.unsures, f)
	}
}

// checkPartly runs the rules of a struct if the values of some fields are unknown, because they are invalid or may
// have a wrong name. It reports only what the rules say for any values of these fields. It reports nothing about
// fields that have a problem already.
func (r *recordDecoder) checkPartly() {
	defer func() {
		// Rules rely on valid values, which these are not.
		_ = recover()
	}()
	vary := map[*field][]reflect.Value{}
	variants := 0
	add := func(f *field, must bool) bool {
		vary[f] = r.samples(f)
		variants = max(variants, len(vary[f]))
		return len(vary[f]) > 0 || !must
	}
	for _, f := range r.unsures {
		if !add(f, true) {
			return // unknown rules may depend on it
		}
	}
	for _, f := range r.s.list {
		if r.strange && r.written[f] == nil && vary[f] == nil {
			add(f, false)
		}
	}
	type finding struct{ path, message, remedy string }
	run := func(v reflect.Value) (found []finding) {
		r.rules(v, func(path, message, remedy string) { found = append(found, finding{path, message, remedy}) })
		return found
	}
	found := run(r.v)
	for i := range variants {
		v := settable(r.v)
		for f, values := range vary {
			if len(values) > 0 {
				v.FieldByIndex(f.index).Set(values[i%len(values)])
			}
		}
		again := run(v)
		found = slices.DeleteFunc(found, func(a finding) bool {
			return !slices.ContainsFunc(again, func(b finding) bool { return a.path == b.path && a.message == b.message })
		})
	}
	for _, p := range found {
		if !slices.ContainsFunc(r.unsures, func(f *field) bool { return Within(p.path, f.name) }) {
			r.complain(p.path, p.message, p.remedy)
		}
	}
}

// samples returns values that a field might have had, at least one of which is not zero, or none if its type is
// opaque.
func (r *recordDecoder) samples(f *field) []reflect.Value {
	scratch := NewDecoder(func(string) (string, bool, error) { return "", false, nil })
	at := *r.at
	at.outer, at.field = r.at, f
	scratch.at = &at
	values := scratch.samples(f.shape, f.check.oneof, 3)
	if !slices.ContainsFunc(values, func(v reflect.Value) bool { return !v.IsZero() }) {
		return nil
	}
	return values
}

// sampleTexts are texts that a type which decodes itself may accept. Some rules look for calls of cursor().
var sampleTexts = []string{"x", "1", "1s", "true", "http://x/", "cursor()", "http://x/$(cursor())"}

func (d *Decoder) samples(s *shape, oneof []string, depth int) []reflect.Value {
	zero := reflect.Zero(s.rt)
	values := []reflect.Value{zero}
	if depth == 0 {
		return values
	}
	texts := sampleTexts
	if oneof != nil {
		texts = oneof
	}
	switch s.kind {
	case rawKind:
	case pointerKind:
		for _, elem := range d.samples(s.elem, oneof, depth-1) {
			p := reflect.New(s.elem.rt)
			p.Elem().Set(elem)
			values = append(values, p)
		}
	case listKind:
		for _, elem := range d.samples(s.elem, oneof, depth-1) {
			values = append(values, reflect.Append(zero, elem))
		}
	case mapKind:
		m := reflect.MakeMap(s.rt)
		for _, elem := range d.samples(s.elem, oneof, depth-1) {
			m.SetMapIndex(reflect.ValueOf("x").Convert(s.rt.Key()), elem)
		}
		values = append(values, m)
	case orderedKind:
		for _, elem := range d.samples(s.elem, oneof, depth-1) {
			m := reflect.New(s.rt)
			m.Interface().(ordered).add("x", elem, Pos{})
			values = append(values, m.Elem())
		}
	case recordKind:
		v := reflect.New(s.rt).Elem()
		for _, f := range s.list {
			some := d.samples(f.shape, f.check.oneof, depth-1)
			v.FieldByIndex(f.index).Set(some[len(some)-1])
		}
		values = append(values, v)
	default:
		for _, text := range texts {
			v, n := reflect.New(s.rt).Elem(), &Node{Kind: TextNode, Text: text}
			before := d.errors
			d.inside(&frame{node: n, path: d.at.path, field: d.at.field}, func() { d.value(n, v, s) })
			if d.errors == before {
				values = append(values, v)
			}
		}
	}
	return values
}
