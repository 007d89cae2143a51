package config

import (
	"cmp"
	"reflect"

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

// eachStep calls f for every step in v, those inside of others included. Steps
// lie in lists, so that f may change them.
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
		if holdsNothing(v.Type().Elem().Kind()) {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), depth+1, visit)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			walk(it.Value(), depth+1, visit)
		}
	case reflect.Struct:
		visit(v)
		if entries := v.MethodByName("Entries"); entries.IsValid() && entries.Type().NumIn() == 0 && entries.Type().NumOut() == 1 {
			walk(entries.Call(nil)[0], depth+1, visit)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), depth+1, visit)
			}
		}
	}
}

// holdsNothing says whether values of a kind have no components inside.
func holdsNothing(k reflect.Kind) bool {
	return k != reflect.Struct && k != reflect.Pointer && k != reflect.Interface && k != reflect.Slice && k != reflect.Map && k != reflect.Array
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
