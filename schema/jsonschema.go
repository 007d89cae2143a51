package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// TopLevel describes top-level keys of documents in [JSONSchema].
type TopLevel struct {
	Ignored string   // pattern of the keys that may have any value; "": there are none
	Shared  []string // a document that has only these keys, and ignored ones, needs no other
}

// JSONSchema returns a JSON Schema document (draft-07) for a type, for editors. Equal types give equal bytes.
func JSONSchema(t *Type, title string, top TopLevel) ([]byte, error) {
	b := schemaBuilder{definitions: map[string]any{}, names: map[reflect.Type]string{}}
	root := b.typ(t)
	if ref := root["$ref"]; ref != nil { // draft-07 ignores keywords next to a reference
		root = map[string]any{"allOf": []any{root}}
	}
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = title
	if top.Ignored != "" {
		root["patternProperties"] = map[string]any{top.Ignored: map[string]any{}}
	}
	if len(top.Shared) > 0 && root["required"] != nil {
		shared := []any{map[string]any{"enum": top.Shared}}
		if top.Ignored != "" {
			shared = append(shared, map[string]any{"pattern": top.Ignored})
		}
		root["if"] = map[string]any{"not": map[string]any{"propertyNames": anyOf(shared...)}}
		root["then"] = map[string]any{"required": root["required"]}
		delete(root, "required")
	}
	if len(b.definitions) > 0 {
		root["definitions"] = b.definitions
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("JSON Schema of %s: %w", title, err)
	}
	return append(text, '\n'), nil
}

// schemaBuilder makes the JSON Schema of types, and collects shared definitions: components with a type key, their
// types, and recursive types.
type schemaBuilder struct {
	definitions map[string]any
	names       map[reflect.Type]string
}

// typ returns the schema of a type.
func (b *schemaBuilder) typ(t *Type) map[string]any {
	if t.shape() == nil {
		forms := make([]any, len(t.anyOf))
		for i, a := range t.anyOf {
			forms[i] = b.typ(a)
		}
		return anyOf(forms...)
	}
	if len(t.words) > 0 {
		return words(textKind, t.words)
	}
	return b.value(t.shape(), t.value(), nil)
}

// value returns the schema of a shape with its defaults. f is the field that holds it, or nil.
func (b *schemaBuilder) value(s *shape, v reflect.Value, f *field) map[string]any {
	switch s.kind {
	case pointerKind:
		if v.IsNil() {
			return b.element(s, f)
		}
		return b.value(s.elem, v.Elem(), f)
	case listKind:
		return map[string]any{"type": "array", "items": b.element(s, f)}
	case mapKind, orderedKind:
		return map[string]any{"type": "object", "additionalProperties": b.element(s, f)}
	case rawKind:
		return raw(f)
	case customKind:
		if t := s.described(); t != nil {
			return b.define(s, func() map[string]any { return b.typ(t) })
		}
		return text()
	case recordKind:
		if s.recursive() {
			zero := reflect.New(s.rt).Elem()
			return b.define(s, func() map[string]any { return b.record(s, zero) })
		}
		return b.record(s, v)
	}
	return scalar(s.kind, f)
}

// raw returns the schema of any value, or the one in the field's tag `jsonschema`.
func raw(f *field) map[string]any {
	m := map[string]any{}
	if f != nil {
		_ = json.Unmarshal([]byte(f.tag.Get("jsonschema")), &m) // "" and true allow anything
	}
	return m
}

func (b *schemaBuilder) element(s *shape, f *field) map[string]any {
	return b.value(s.elem, reflect.New(s.elem.rt).Elem(), f)
}

// define returns a reference to the definition of a type, which is made on first use.
func (b *schemaBuilder) define(s *shape, make func() map[string]any) map[string]any {
	name, ok := b.names[s.rt]
	if !ok {
		name = s.rt.String()
		for n := 2; b.definitions[name] != nil; n++ { // packages with the same name
			name = fmt.Sprintf("%v_%d", s.rt, n)
		}
		b.names[s.rt] = name
		b.set(name, make)
	}
	return ref(name)
}

// set makes a definition. It reserves the name first, so that the definition may refer to itself.
func (b *schemaBuilder) set(name string, make func() map[string]any) {
	b.definitions[name] = map[string]any{}
	b.definitions[name] = make()
}

func ref(name string) map[string]any {
	escaped := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "[", "%5B", "]", "%5D", "*", "%2A", " ",
		"%20").Replace(name)
	return map[string]any{"$ref": "#/definitions/" + escaped}
}

// record returns the schema of a struct: its mapping, or one of its short forms.
func (b *schemaBuilder) record(s *shape, v reflect.Value) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, f := range s.list {
		fv := v.FieldByIndex(f.index)
		properties[f.name] = b.field(f, fv)
		if f.check.required {
			required = append(required, f.name)
		}
	}
	long := map[string]any{"type": "object", "additionalProperties": false}
	if len(required) > 0 {
		long["required"] = required
	}
	var rules []any
	for _, g := range s.groups {
		set := slices.ContainsFunc(g.members, func(f *field) bool { return !v.FieldByIndex(f.index).IsNil() })
		rules = append(rules, exactlyOne(g.names(), g.optional || set))
	}
	if s.variant != nil {
		variants := s.variants()
		maps.Copy(properties, b.variants(variants))
		rules = append(rules, oneType(s.names(), variants.Names(), s.optional))
	}
	if len(properties) > 0 {
		long["properties"] = properties
	}
	if len(rules) > 0 {
		long["allOf"] = rules
	}
	forms := []any{long}
	if words := b.words(s); len(words) > 0 {
		forms = append(forms, map[string]any{"enum": words})
	}
	if main := s.main; main != nil {
		forms = append(forms, b.bare(main, v.FieldByIndex(main.index)))
	}
	if len(forms) == 1 {
		return long
	}
	return anyOf(forms...)
}

// words returns the choices that a single word selects.
func (b *schemaBuilder) words(s *shape) []any {
	var words []any
	for _, f := range s.list {
		if f.group != "" && f.shape.elem.kind == recordKind {
			words = append(words, f.name)
		}
	}
	return words
}

// field returns the schema of a field, with its doc and default. null means that it is not set.
func (b *schemaBuilder) field(f *field, v reflect.Value) map[string]any {
	bare := b.bare(f, v)
	m := bare
	if bare["$ref"] != nil {
		m = anyOf(bare)
	}
	if f.check.required && f.group == "" {
		m = maps.Clone(m)
	} else {
		m = orNull(m)
	}
	doc := f.doc
	if f.pending != "" {
		doc = strings.TrimSpace(doc + " An error in this version: " + f.pending + " come later.")
	}
	if doc != "" {
		m["description"] = doc
	}
	if text := defaultText(f, v); text != "" {
		m["default"] = native(f.shape.pointed().kind, text)
	}
	return m
}

// bare returns the schema of a field's value.
func (b *schemaBuilder) bare(f *field, v reflect.Value) map[string]any {
	m := b.value(f.shape, v, f)
	if f.check.nonempty {
		m = maps.Clone(m)
		switch f.shape.kind {
		case listKind:
			m["minItems"] = 1
		case mapKind, orderedKind:
			m["minProperties"] = 1
		case textKind, secretKind:
			m["minLength"] = 1
		}
	}
	return m
}

// variants returns the type keys of a kind of component.
func (b *schemaBuilder) variants(v Variants) map[string]any {
	types := map[string]any{}
	for _, name := range v.Names() {
		definition := v.Kind() + "." + name
		if b.definitions[definition] == nil {
			b.set(definition, func() map[string]any {
				t := v.Variant(name)
				if t.lackingWithout(t.value()) || slices.ContainsFunc(t.shape().list,
					func(f *field) bool { return f.check.required }) {
					return b.typ(t)
				}
				return orNull(b.typ(t))
			})
		}
		types[name] = ref(definition)
	}
	return types
}

// exactlyOne requires exactly one of some keys, or at most one if optional.
func exactlyOne(names []string, optional bool) map[string]any {
	var one []any
	for _, name := range names {
		one = append(one, map[string]any{"required": []string{name}})
	}
	switch {
	case len(one) == 0:
		return map[string]any{}
	case optional:
		none := map[string]any{"not": anyOf(one...)}
		return map[string]any{"oneOf": append([]any{none}, one...)}
	}
	return map[string]any{"oneOf": one}
}

// oneType requires exactly one type beside the fields, or at most one if optional. An unknown key counts as a type: it is an error
// already, and editors would add one for each type that is missing.
func oneType(fields, types []string, optional bool) map[string]any {
	only := func(names []string) map[string]any {
		if len(names) == 0 {
			return map[string]any{"maxProperties": 0}
		}
		return map[string]any{"propertyNames": map[string]any{"enum": names}}
	}
	none := map[string]any{"not": only(fields)}
	one := map[string]any{
		"if":   map[string]any{"allOf": []any{only(slices.Concat(fields, types)), none}},
		"then": exactlyOne(types, false),
	}
	if optional {
		return one
	}
	return map[string]any{"allOf": []any{none, one}}
}

// orNull returns a schema that allows null, too.
func orNull(m map[string]any) map[string]any {
	m = maps.Clone(m)
	if kind, ok := m["type"].(string); ok && m["allOf"] == nil && m["enum"] == nil {
		m["type"] = []string{kind, "null"} // a second schema would be a second error for every mistake
		return m
	}
	if forms, ok := m["anyOf"].([]any); ok {
		m["anyOf"] = append(slices.Clone(forms), map[string]any{"type": "null"})
		return m
	}
	if len(m) == 0 { // allows anything
		return m
	}
	return anyOf(m, map[string]any{"type": "null"})
}

// text returns the schema of a scalar's text, of any YAML kind.
func text() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}
