// Package schema describes plugin configuration. Start at [Of], which reads a config value once. Decoding, lint, JSON
// Schema and docs all use its result.
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
//	pending:"retries"       an error: this version does not act on the field
//
// min, max and oneof apply to the scalars in a field, including those of a list or mapping. nonempty applies to the
// field itself. Other tags are for the field's type, which reads them with [Decoder.Tag].
package schema

import (
	"reflect"
	"strings"
	"sync"
)

// Type describes a configuration value for decoders, linters, editors and docs. It is safe for concurrent use.
type Type struct {
	defaults reflect.Value
	text     string  // of AnyOf
	anyOf    []*Type // of AnyOf
	words    []string
	finish   Finish // of Through

	once sync.Once
	of   *shape // of the defaults: see shape
}

// Words is an example for [AnyOf]: text that is one of a few words.
type Words []string

// Of reads the tags of a config value that holds a plugin's defaults. An invalid tag is a mistake of the plugin's
// author: it panics and names the field.
//
// The tags of flowd's own types are read on first use: a program starts with all of them and uses few, and reading
// all takes 1 ms and 2.5 MiB. Tests read them all.
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

// module is the common prefix of the paths of flowd's own packages.
var module = strings.TrimSuffix(packagePath, "schema")

// shape returns the shape that the tags describe, or nil for AnyOf.
func (t *Type) shape() *shape {
	t.once.Do(func() {
		if t.defaults.IsValid() {
			t.of = describe(t.defaults.Type())
		}
	})
	return t.of
}

// AnyOf describes a value with the type of any of the examples. text is the docs' name for it.
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

// Finish turns a decoded value into the configuration of a plugin, for [Type.Through]. n is the value as written. ok is
// false if the value has problems, which have been reported. d collects further ones.
type Finish func(d *Decoder, n *Node, value any, ok bool) (config any)

// Through returns a type that is written, checked and documented like t, and decoded to what finish returns.
func (t *Type) Through(finish Finish) *Type { return &Type{defaults: t.defaults, finish: finish} }

// New returns a config value with only defaults, as for an empty mapping.
func (t *Type) New() any {
	d := NewDecoder(func(string) (string, bool, error) { return "", false, nil })
	v := t.value()
	d.fill(v, t.shape())
	if t.finish != nil {
		return t.finish(d, &Node{Kind: MapNode}, v.Interface(), true)
	}
	return v.Interface()
}

// Decode decodes n over the defaults. It returns a value of the type that was passed to Of, or what the function passed to
// Through makes of it. d collects problems.
func (t *Type) Decode(d *Decoder, n *Node) any {
	_, config := t.decode(d, n)
	return config
}

// decode is Decode. It also returns the value as it is written.
func (t *Type) decode(d *Decoder, n *Node) (written, config any) {
	before := d.errors
	written = t.decodeWritten(d, n)
	if t.finish == nil {
		return written, written
	}
	return written, t.finish(d, n, written, d.errors == before)
}

func (t *Type) decodeWritten(d *Decoder, n *Node) any {
	v := t.value()
	if n.Kind == NullNode && t.lackingWithout(v) {
		d.Report(n, Problem{Code: Required, Message: "needs a value: " + t.shape().expected(),
			Remedy: "write it after the colon"})
		return v.Interface()
	}
	d.decode(n, v, t.shape())
	return v.Interface()
}

// value returns a new, settable copy of the defaults. The decoder replaces pointers, lists and mappings, and never
// writes through them.
func (t *Type) value() reflect.Value { return settable(t.defaults) }

// settable returns a settable copy of a value.
func settable(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	return copied
}

// lackingWithout reports whether a configuration is required: it is a single value without a default.
func (t *Type) lackingWithout(v reflect.Value) bool {
	switch t.shape().kind {
	case recordKind, pointerKind, rawKind, boolKind:
		return false
	}
	return v.IsZero()
}

// Variants is a set of named types, of which a value chooses one by its key: the registry of a plugin kind.
type Variants interface {
	Kind() string              // "input", for messages
	Names() []string           // sorted
	Variant(name string) *Type // nil when there is none
	Remedy(name string) string // for other systems' words: `write "size"`, else ""
}

// Unmarshaler is a field type that decodes itself, such as an expression. In a struct, it never gets null: the field
// keeps its default.
type Unmarshaler interface {
	UnmarshalConfig(d *Decoder, n *Node)
}

// NullTaker is an Unmarshaler that gets null as a choice: `decode: FORMAT`.
type NullTaker interface {
	Unmarshaler
	TakesNull()
}

// Describer is a field type that describes itself to JSON Schema and docs.
type Describer interface {
	DescribeConfig() *Type
}

// Checker is a config struct with rules across fields. CheckConfig is called after the fields are decoded. path names
// the field at fault, relative to the struct, or is "". If a field has a problem, it is called several times, also
// with copies in which that field has other values.
type Checker interface {
	CheckConfig(report func(path, message, remedy string))
}

// Worder is a config struct that knows other systems' words: "count": "write `size`".
type Worder interface {
	Words() map[string]string
}

// Variant is a struct field tagged `yaml:",variant"`: the only type key next to the common keys. With
// `yaml:",variant,optional"` the key may be missing.
type Variant interface {
	Variants() Variants
	// SetVariant sets the decoded configuration, a value of the type whose defaults were passed to Of.
	SetVariant(name string, config any, at Place)
}

// Place is where a value is. The decoder fills in a struct field of this type, tagged `yaml:",place"`.
type Place struct {
	Pos  Pos    // of the value's key if it has one, else of the value
	Path string // "inputs.orders"
	Node *Node  // the value; nil if it was not set
}
