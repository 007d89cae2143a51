package schema

import (
	"reflect"
	"sync"
)

// Walk calls visit for every struct in v, from the outside in. It reads the
// exported fields, and the entries of ordered maps.
func Walk(v any, visit func(reflect.Value)) { walk(reflect.ValueOf(v), 0, visit) }

func walk(v reflect.Value, depth int, visit func(reflect.Value)) {
	if depth > maxDepth || !v.IsValid() || holdsNothing(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), depth+1, visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), depth+1, visit)
		}
	case reflect.Map:
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
			return t == placeType || t == nodeType.Elem()
		default:
			return t.Kind() != reflect.Interface
		}
	}
	return false
}
