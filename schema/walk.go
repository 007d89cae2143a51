package schema

import (
	"reflect"
	"sync"
)

// Walk calls visit for every struct in v, outer ones first. It reads exported fields, and the entries of ordered
// maps.
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
		if m, ok := reflect.TypeAssert[entered](v); ok {
			walk(m.list(), depth+1, visit)
			return
		}
		for _, i := range waysInto(v.Type()) {
			walk(v.Field(i), depth+1, visit)
		}
	}
}

// entered is a Map of any element.
type entered interface{ list() reflect.Value }

func (m Map[V]) list() reflect.Value { return reflect.ValueOf(m.entries) }

// ways caches fields by type: every file has the same types, and is walked many times.
var ways sync.Map

// waysInto returns the fields of a struct that may contain structs.
func waysInto(t reflect.Type) (fields []int) {
	if known, ok := ways.Load(t); ok {
		return known.([]int)
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !holdsNothing(f.Type) {
			fields = append(fields, i)
		}
	}
	ways.Store(t, fields)
	return fields
}

// holdsNothing reports whether values of a type contain no structs that walk visits.
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
