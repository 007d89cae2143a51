package schema

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// shape is a Go type as it looks in a configuration. There is one per type, so recursive types have recursive shapes.
type shape struct {
	rt     reflect.Type
	kind   kind
	elem   *shape // of pointers, lists and mappings
	fields        // of records
}

type kind uint8

const (
	textKind kind = iota
	boolKind
	intKind
	uintKind
	floatKind
	durationKind
	sizeKind
	secretKind
	textualKind // an encoding.TextUnmarshaler
	customKind  // an Unmarshaler
	rawKind     // a *Node
	pointerKind
	listKind
	mapKind     // a Go map
	orderedKind // a Map
	recordKind  // a struct
)

var (
	nodeType        = reflect.TypeFor[*Node]()
	placeType       = reflect.TypeFor[Place]()
	unmarshalerType = reflect.TypeFor[Unmarshaler]()
	variantType     = reflect.TypeFor[Variant]()
	textualType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	packagePath     = reflect.TypeFor[Type]().PkgPath()
)

// shapes caches descriptions. The lock is held for a whole description, so no one sees half of one.
var shapes = struct {
	mu sync.Mutex
	by map[reflect.Type]*shape
}{by: map[reflect.Type]*shape{}}

// describe reads a type once. It panics if a tag is invalid.
func describe(rt reflect.Type) *shape {
	shapes.mu.Lock()
	defer shapes.mu.Unlock()
	d := describer{fresh: map[reflect.Type]*shape{}}
	s := d.describe(rt)
	maps.Copy(shapes.by, d.fresh) // not reached for an invalid type
	return s
}

// describer holds the types being described, so that recursion ends.
type describer struct {
	fresh map[reflect.Type]*shape
	field string // the field whose type is being described, for messages: "pkg.Config.Field: "
}

func (d *describer) describe(rt reflect.Type) *shape {
	if s := shapes.by[rt]; s != nil {
		return s
	}
	if s := d.fresh[rt]; s != nil {
		return s
	}
	s := &shape{rt: rt, kind: d.kindOf(rt)}
	d.fresh[rt] = s
	switch s.kind {
	case pointerKind, listKind:
		s.elem = d.describe(rt.Elem())
	case mapKind:
		if rt.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("schema: %s%v: a mapping's keys are strings", d.field, rt))
		}
		s.elem = d.describe(rt.Elem())
	case orderedKind:
		s.elem = d.describe(reflect.New(rt).Interface().(ordered).elem())
	case recordKind:
		s.by = map[string]*field{}
		d.collect(&s.fields, rt, nil, "")
	}
	return s
}

func (d *describer) kindOf(rt reflect.Type) kind {
	switch {
	case rt == nodeType:
		return rawKind
	case reflect.PointerTo(rt).Implements(unmarshalerType):
		return customKind
	case rt == reflect.TypeFor[time.Duration]():
		return durationKind
	case rt == reflect.TypeFor[Size]():
		return sizeKind
	case rt == reflect.TypeFor[Secret]():
		return secretKind
	case rt.PkgPath() == packagePath && strings.HasPrefix(rt.Name(), "Map["):
		return orderedKind
	case rt.Kind() == reflect.Pointer:
		return pointerKind
	case reflect.PointerTo(rt).Implements(textualType):
		return textualKind
	}
	switch rt.Kind() {
	case reflect.String:
		return textKind
	case reflect.Bool:
		return boolKind
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intKind
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintKind
	case reflect.Float32, reflect.Float64:
		return floatKind
	case reflect.Slice:
		return listKind
	case reflect.Map:
		return mapKind
	case reflect.Struct:
		return recordKind
	}
	panic(fmt.Sprintf("schema: %s%v can't be configuration", d.field, rt))
}

// pointed returns the shape that a pointer leads to; that of other types is s.
func (s *shape) pointed() *shape {
	for s.kind == pointerKind {
		s = s.elem
	}
	return s
}

// leaf returns the shape of the scalars in s.
func (s *shape) leaf() *shape {
	for s.elem != nil {
		s = s.elem
	}
	return s
}

// scalar returns the kind of value that bounds apply to. A type that decodes itself and is a number underneath counts
// as a number.
func (s *shape) scalar() (k kind, ok bool) {
	k = s.kind
	if k == customKind {
		switch s.rt.Kind() {
		case reflect.Int, reflect.Int64:
			return intKind, true
		case reflect.Float64:
			return floatKind, true
		case reflect.String:
			return textKind, true
		}
	}
	return k, k <= secretKind
}

// recursive reports whether a struct contains itself, or components, which may contain anything.
func (s *shape) recursive() bool {
	return s.variant != nil || s.reaches(s, map[*shape]bool{})
}

func (s *shape) reaches(goal *shape, seen map[*shape]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	leads := func(to *shape) bool { return to == goal || to.reaches(goal, seen) }
	return s.elem != nil && leads(s.elem) || slices.ContainsFunc(s.list, func(f *field) bool { return leads(f.shape) })
}

// takesMap reports whether a mapping may be a value of this shape.
func (s *shape) takesMap() bool {
	switch s.kind {
	case mapKind, orderedKind, recordKind, rawKind:
		return true
	case pointerKind:
		return s.elem.takesMap()
	case customKind:
		t := s.described()
		return t != nil && t.takesMap()
	}
	return false
}

func (t *Type) takesMap() bool {
	s := t.shape()
	return s != nil && s.kind != customKind && s.takesMap() || slices.ContainsFunc(t.anyOf, (*Type).takesMap)
}

// described returns what a type says about itself, or nil.
func (s *shape) described() *Type {
	if d, ok := reflect.New(s.rt).Interface().(Describer); ok {
		return d.DescribeConfig()
	}
	return nil
}

// takesNull reports whether the type is a [NullTaker].
func (s *shape) takesNull() bool {
	_, ok := reflect.New(s.rt).Interface().(NullTaker)
	return ok
}

// secretive reports whether a struct has a field for a secret.
func (s *shape) secretive() bool {
	return slices.ContainsFunc(s.list, func(f *field) bool { return f.shape.leaf().kind == secretKind })
}

// expected names a value of this shape in problems.
func (s *shape) expected() string {
	switch s.kind {
	case pointerKind:
		return s.elem.expected()
	case customKind:
		if t := s.described(); t != nil {
			return t.noun()
		}
	}
	return nouns[s.kind].complaint
}

// nouns are the names of kinds.
var nouns = [...]struct{ docs, complaint string }{
	textKind:     {"text", "text"},
	boolKind:     {"bool", "true or false"},
	intKind:      {"whole number", "a whole number"},
	uintKind:     {"whole number", "a whole number"},
	floatKind:    {"number", "a number"},
	durationKind: {"duration", "a duration such as 2s"},
	sizeKind:     {"size", "a size such as 64KiB"},
	secretKind:   {"secret", "text"},
	textualKind:  {"text", "text"},
	customKind:   {"text", "text"},
	rawKind:      {"any value", "text"},
	listKind:     {"list of ", "a list"},
	mapKind:      {"mapping of names to ", "a mapping"},
	orderedKind:  {"mapping of names to ", "a mapping"},
	recordKind:   {"", "a mapping"},
}
