// Package schema describes plugin configuration. Start at [Of], which reads a
// config value once; decoding, lint, JSON Schema and docs all use its result.
//
// A config is a Go value of any type. In a struct, tags say the rest:
//
//	yaml:"name"             the key
//	yaml:"name,main"        the field that the struct stands for in short: `compress: gzip`
//	yaml:",inline"          an embedded struct whose fields are this struct's own
//	yaml:",variant"         a field of a type that is a [Variant]: the one type key
//	yaml:",variant,optional"
//	yaml:",place"           a [Place], filled in
//	yaml:"-"                not configuration
//	doc:"Sentence."         for docs and JSON Schema
//	check:"required,nonempty,min=1,max=10,oneof=a|b|c"
//	default:"30s"           the default where no typed value can give it
//	oneof:"group"           on pointers: exactly one member of the group is written
//	oneof:"group,optional"  at most one
//	pending:"retries"       accepted, but reported as not in force
//
// min, max and oneof apply to the scalars in a field, including those of a list or mapping;
// nonempty applies to the field itself. Any other tag is for the field's type, which reads
// it with [Decoder.Tag].
package schema

import (
	"reflect"
	"strings"
	"sync"
)

// Type describes a configuration value: what a decoder, a linter, an editor and
// a reader of the docs need to know. It is safe for concurrent use.
type Type struct {
	defaults reflect.Value
	text     string  // of AnyOf
	anyOf    []*Type // of AnyOf
	words    []string

	once sync.Once
	of   *shape // of the defaults: see shape
}

// Words are an example of [AnyOf] for text that is one of a few words.
type Words []string

// Of takes the config value that holds a plugin's defaults, and reads its tags. It
// panics when a tag makes no sense, naming the field: a mistake of the plugin's author.
//
// The tags of flowd's own types are read on first use only: a program starts with all
// of them and uses few, which would cost it 1 ms and 2.5 MiB. Tests read them all.
func Of(defaults any) *Type {
	v := reflect.ValueOf(defaults)
	if !v.IsValid() {
		panic("schema: Of(nil): give a config value, such as struct{}{}")
	}
	t := &Type{defaults: v}
	if !strings.HasPrefix(v.Type().PkgPath(), module) {
		t.shape()
	}
	return t
}

// module is the path with which all of flowd's own packages begin.
var module = strings.TrimSuffix(packagePath, "schema")

// shape is what the tags say, or nil: that of AnyOf.
func (t *Type) shape() *shape {
	t.once.Do(func() {
		if t.defaults.IsValid() {
			t.of = describe(t.defaults.Type())
		}
	})
	return t.of
}

// AnyOf describes a value that may have the type of any of the examples; text
// is how docs call it.
func AnyOf(text string, examples ...any) *Type {
	t := &Type{text: text}
	for _, e := range examples {
		a := Of(e)
		if words, ok := e.(Words); ok {
			a = &Type{defaults: reflect.ValueOf(""), words: words}
		}
		t.anyOf = append(t.anyOf, a)
	}
	return t
}

// New is a config value with nothing but defaults: what an empty mapping gives.
func (t *Type) New() any {
	d := NewDecoder(func(string) (string, bool, error) { return "", false, nil })
	v := t.value()
	d.fill(v, t.shape())
	return v.Interface()
}

// Decode decodes n, starting from the defaults, and gives a value of the type
// that was given to Of. Problems are d's.
func (t *Type) Decode(d *Decoder, n *Node) any {
	v := t.value()
	if n.Kind == NullNode && t.lackingWithout(v) {
		d.Report(n, Problem{Code: Required, Message: "needs a value: " + t.shape().expected(),
			Remedy: "write it after the colon"})
		return v.Interface()
	}
	d.decode(n, v, t.shape())
	return v.Interface()
}

// value is a new, settable copy of the defaults. The decoder replaces what
// pointers, lists and mappings hold and never writes through them.
func (t *Type) value() reflect.Value { return settable(t.defaults) }

// settable is a copy of a value that can be set.
func settable(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	return copied
}

// lackingWithout reports whether a configuration can't be left out: it is one
// value, and that has no default.
func (t *Type) lackingWithout(v reflect.Value) bool {
	switch t.shape().kind {
	case recordKind, pointerKind, rawKind, boolKind:
		return false
	}
	return v.IsZero()
}

// Variants is a set of named types of which a value picks exactly one by its
// key: the registry of a plugin kind.
type Variants interface {
	Kind() string              // "input", for messages
	Names() []string           // sorted
	Variant(name string) *Type // nil when there is none
	Remedy(name string) string // for words of peers: `write "size"`, else ""
}

// Unmarshaler is a field type that decodes itself: an expression, a choice.
// null never gets to it in a struct: that field keeps its default.
type Unmarshaler interface {
	UnmarshalConfig(d *Decoder, n *Node)
}

// NullTaker is an Unmarshaler that null gets to where it is a choice: `decode: FORMAT`.
type NullTaker interface {
	Unmarshaler
	TakesNull()
}

// Describer is a field type that describes itself to JSON Schema and docs.
type Describer interface {
	DescribeConfig() *Type
}

// Checker is a config struct with rules over several fields. CheckConfig is
// called after the fields were decoded; path names the field that is to blame,
// relative to the struct, or is "". Where a field had a problem it is called
// several times, also for copies in which that field has other values.
type Checker interface {
	CheckConfig(report func(path, message, remedy string))
}

// Worder is a config struct that knows words of peers: "count": "write `size`".
type Worder interface {
	Words() map[string]string
}

// Variant is a struct field tagged `yaml:",variant"`: the one type key next to the common
// keys. With `yaml:",variant,optional"` the key may be missing.
type Variant interface {
	Variants() Variants
	// SetVariant takes the decoded configuration, a value of the type whose
	// defaults were given to Of.
	SetVariant(name string, config any, at Place)
}

// Place is where a value is. A struct field of this type, tagged `yaml:",place"`, is filled
// in by the decoder.
type Place struct {
	Pos  Pos    // of the value's key, where it has one, else of the value
	Path string // "inputs.orders"
	Node *Node  // the value; nil when it was left out
}
