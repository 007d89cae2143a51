package config

import (
	"cmp"
	"reflect"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// use is a component found somewhere in a spec: the lists of steps in a
// `switch`, the inputs in a `sequence`.
type use struct {
	kind   string // "input", "processor", "output"
	plugin string // its type: "steps"
	config any
	place  schema.Place
}

// uses finds every component in v, those in the configurations of others
// included.
func uses(v any) []use {
	var found []use
	walk(reflect.ValueOf(v), 0, func(x reflect.Value) {
		if !isComponent[x.Type()] {
			return // Interface makes a copy
		}
		switch p := x.Interface().(type) {
		case engine.Plugin[engine.Input]:
			found = append(found, use{"input", p.Name, p.Config, p.Place})
		case engine.Plugin[engine.Processor]:
			found = append(found, use{"processor", p.Name, p.Config, p.Place})
		case engine.Plugin[engine.Output]:
			found = append(found, use{"output", p.Name, p.Config, p.Place})
		}
	})
	return found
}

// warnWhere warns of each component whose configuration has a trait: at a field of it,
// where that is written.
func (l *loader) warnWhere(has func(config any) bool, field string, warning schema.Problem) {
	warning.Warning = true
	for _, f := range l.files {
		for _, u := range uses(f.spec.Pipeline) {
			if !has(u.config) {
				continue
			}
			if n := find(u.place.Node, field); n != nil {
				u.place = schema.Place{Pos: n.Pos, Path: join(u.place.Path, field), Node: n}
			}
			l.report(u.complaint(warning))
		}
	}
}

var isComponent = map[reflect.Type]bool{
	reflect.TypeFor[engine.Plugin[engine.Input]]():     true,
	reflect.TypeFor[engine.Plugin[engine.Processor]](): true,
	reflect.TypeFor[engine.Plugin[engine.Output]]():    true,
}

// eachStep calls f for every step in v, including those inside others. Steps are in lists,
// so f may change them.
func eachStep(v any, f func(*engine.StepSpec)) {
	walk(reflect.ValueOf(v), 0, func(x reflect.Value) {
		if x.Type() == stepType && x.CanAddr() {
			f(x.Addr().Interface().(*engine.StepSpec))
		}
	})
}

// stepName is the name of a step in errors and metrics.
func stepName(s *engine.StepSpec) string { return cmp.Or(s.Name, s.Use.Name) }

var (
	stepType  = reflect.TypeFor[engine.StepSpec]()
	limitType = reflect.TypeFor[engine.RateLimit]()
	retryType = reflect.TypeFor[engine.Retry]()
	placeType = reflect.TypeFor[schema.Place]()
	nodeType  = reflect.TypeFor[schema.Node]()
)

// walk calls visit for every struct in v, from the outside in. It reads the
// exported fields, and the entries of ordered maps.
func walk(v reflect.Value, depth int, visit func(reflect.Value)) {
	if depth > maxDepth || !v.IsValid() || v.Type() == placeType || v.Type() == nodeType {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), depth+1, visit)
		}
	case reflect.Slice, reflect.Array:
		if holdsNothing(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), depth+1, visit)
		}
	case reflect.Map:
		if holdsNothing(v.Type().Elem()) {
			return
		}
		for it := v.MapRange(); it.Next(); {
			walk(it.Value(), depth+1, visit)
		}
	case reflect.Struct:
		visit(v)
		w := wayInto(v.Type())
		if w.entries >= 0 {
			walk(v.Method(w.entries).Call(nil)[0], depth+1, visit)
			return
		}
		for _, i := range w.fields {
			walk(v.Field(i), depth+1, visit)
		}
	}
}

// way is how walk continues from a struct.
type way struct {
	entries int   // the method Entries of an ordered map, or -1
	fields  []int // that may hold structs
}

// ways are kept by type: every file has the same types, and is walked many times.
var ways sync.Map

func wayInto(t reflect.Type) way {
	if w, known := ways.Load(t); known {
		return w.(way)
	}
	w := way{entries: -1}
	if m, ok := t.MethodByName("Entries"); ok && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 {
		w.entries = m.Index
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !holdsNothing(f.Type) {
			w.fields = append(w.fields, i)
		}
	}
	ways.Store(t, w)
	return w
}

// holdsNothing says whether values of a type have no structs inside that walk visits.
func holdsNothing(t reflect.Type) bool {
	for range maxDepth {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			return t == placeType || t == nodeType
		default:
			return t.Kind() != reflect.Interface
		}
	}
	return false
}

// name is what a component's configuration names: it is text, or a struct with
// a field Name, or was at least written as text.
func (u use) name() string {
	v := reflect.ValueOf(u.config)
	if v.Kind() == reflect.Struct {
		v = v.FieldByName("Name")
	}
	if v.IsValid() && v.Kind() == reflect.String {
		return v.String()
	}
	if n := u.place.Node; n != nil && n.Kind == schema.TextNode {
		return n.Text
	}
	return ""
}

// complaint is a problem of the component, shown at the value that it is
// configured by.
func (u use) complaint(p schema.Problem) schema.Problem {
	p.Path, p.Pos = u.place.Path, u.place.Pos
	if u.place.Node != nil {
		return problemAt(u.place.Node, p)
	}
	return p
}
