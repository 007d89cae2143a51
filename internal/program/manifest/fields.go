package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/formats/jsonschema"
	"github.com/flowd-io/flowd/schema"
)

// structFields returns the fields of a config struct by their keys, with those of inline structs, as fields of a new struct.
// Index leads to the field in the original struct.
func structFields(t reflect.Type, without ...string) (fields []reflect.StructField) {
	for f := range t.Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			for _, inner := range structFields(f.Type, without...) {
				inner.Index = append(slices.Clone(f.Index), inner.Index...)
				fields = append(fields, inner)
			}
		case name != "" && name != "-" && f.IsExported() && !slices.Contains(without, name):
			fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag, Index: f.Index})
		}
	}
	return fields
}

// structOf returns a struct type with fields of other structs.
func structOf(fields []reflect.StructField) reflect.Type {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Name, fields[i].Index = "F"+strconv.Itoa(i), nil
	}
	return reflect.StructOf(fields)
}

// fieldBuilder turns a JSON Schema into fields of a struct. What a field's type can't express stays a *schema.Node, which is
// only checked against the JSON Schema.
type fieldBuilder struct {
	root     schema.Place // of the JSON Schema
	problems []schema.Problem
	open     []*schema.Node // schemas around the current one, by reference
	made     int            // fields, and values of embedded schemas
}

// mostMade bounds fieldBuilder.made: a short JSON Schema whose references double at each level would take up all memory.
const mostMade = 10_000

// overLimit counts a field or a value, and reports whether there are too many.
func (b *fieldBuilder) overLimit() bool {
	if b.made++; b.made == mostMade {
		b.complain(b.root, fmt.Sprintf("the JSON Schema has more than %d settings and parts", mostMade), "make it smaller")
	}
	return b.made >= mostMade
}

func (b *fieldBuilder) report(p ...schema.Problem) { b.problems = append(b.problems, p...) }

func (b *fieldBuilder) complain(at schema.Place, message, remedy string) {
	b.report(at.Problem(schema.Problem{Code: schema.BadValue, Message: message, Remedy: remedy}))
}

// settings returns the fields of the type, with their defaults.
func (b *fieldBuilder) settings() (fields []reflect.StructField, defaults []reflect.Value) {
	at := b.follow(b.root)
	n := at.Node
	const remedy = "write {properties: {NAME: {type: string, description: …}}}"
	switch {
	case n.Kind != schema.MapNode:
		b.complain(at, "expected a JSON Schema, got "+n.Kind.String(), remedy)
		return nil, nil
	case n.Lookup("type") != nil && n.Lookup("type").Text != "object":
		b.complain(at.At("type"), "the settings are an object", "write `type: object`")
		return nil, nil
	}
	for _, name := range []string{"additionalProperties", "patternProperties"} {
		if more := n.Lookup(name); more != nil && more.Text != "false" {
			b.complain(at.Key(name), "the settings themselves can't have names that the JSON Schema does not list",
				"put them into an object of their own, as in {properties: {labels: {additionalProperties: {type: string}}}}")
		}
	}
	fields, defaults = b.object(at)
	if p := at.At("properties"); p.Node.Find(base) != nil {
		b.complain(p.Key(base), fmt.Sprintf("%q is the name of the settings of the process itself", base), "choose another name")
	}
	return fields, defaults
}

// checkWords reports keys of a schema that are not keywords, but look like misspelt ones. Others are allowed in JSON Schema.
func (b *fieldBuilder) checkWords(at schema.Place) {
	for _, key := range at.Node.Keys {
		if slices.Contains(jsonschema.Keywords, key.Text) || strings.HasPrefix(key.Text, "x-") {
			continue
		}
		if near := schema.Nearest(key.Text, jsonschema.Keywords); near != "" {
			b.report(at.Key(key.Text).Problem(schema.Problem{Code: schema.UnknownField,
				Message: strconv.Quote(key.Text) + " is not a keyword of JSON Schema", Remedy: fmt.Sprintf("did you mean %q?", near)}))
		} else if at.Node == b.root.Node {
			b.report(at.Key(key.Text).Problem(schema.Problem{Code: schema.UnknownField,
				Message: strconv.Quote(key.Text) + " is not a keyword of JSON Schema",
				Remedy:  "settings are below `properties`: write {properties: {" + key.Text + ": …}}"}))
		}
	}
}

// object returns the fields of an object.
func (b *fieldBuilder) object(at schema.Place) (fields []reflect.StructField, defaults []reflect.Value) {
	b.checkWords(at)
	properties := at.At("properties")
	required := at.At("required")
	if at.Node.Lookup("required") != nil {
		for i, name := range required.Node.Items {
			if at.Node.Find("properties", name.Text) == nil {
				b.complain(required.Item(i), strconv.Quote(name.Text)+" is required, and is not one of the properties", "add it to `properties`")
			}
		}
	}
	if at.Node.Lookup("properties") == nil || properties.Node.Kind != schema.MapNode {
		return nil, nil
	}
	for i, key := range properties.Node.Keys {
		if key.Text == "" || key.Text == "-" || strings.ContainsAny(key.Text, ",\"`\\ ${}") {
			b.complain(properties.Key(key.Text), strconv.Quote(key.Text)+" can't be the name of a setting", "use letters, digits and _")
			continue
		}
		if s := properties.Node.Items[i]; s.Kind != schema.MapNode && !isTrue(s) {
			continue // not valid, or false
		}
		f, value := b.field(properties.At(key.Text))
		tags := []string{"yaml", key.Text}
		if required.Node != at.Node && slices.ContainsFunc(required.Node.Items, func(n *schema.Node) bool { return n.Text == key.Text }) {
			f.check = append([]string{"required"}, f.check...)
		}
		if len(f.check) > 0 {
			tags = append(tags, "check", strings.Join(f.check, ","))
		}
		if f.doc != "" {
			tags = append(tags, "doc", f.doc)
		}
		if f.embedded != "" {
			tags = append(tags, "jsonschema", f.embedded)
			if strings.Contains(f.embedded, `"writeOnly":true`) || strings.Contains(f.embedded, `"format":"password"`) {
				tags = append(tags, "secret", "true")
			}
		}
		var tag strings.Builder
		for i := 0; i < len(tags); i += 2 {
			fmt.Fprintf(&tag, "%s:%q ", tags[i], tags[i+1])
		}
		fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: f.typ,
			Tag: reflect.StructTag(strings.TrimSpace(tag.String()))})
		defaults = append(defaults, value)
	}
	return fields, defaults
}

// form is the Go form of a schema.
type form struct {
	typ      reflect.Type
	check    []string
	doc      string
	embedded string // JSON Schema of a *schema.Node

	properties []reflect.Value // defaults of an object's properties
}

var node = reflect.TypeFor[*schema.Node]()

// field returns the form of a property with its default. Its type has a zero value that means "not set".
func (b *fieldBuilder) field(at schema.Place) (form, reflect.Value) {
	f := b.form(at)
	if k := f.typ.Kind(); k != reflect.Slice && k != reflect.Map && f.typ != node {
		f.typ = reflect.PointerTo(f.typ)
	}
	value := reflect.New(f.typ).Elem()
	n := at.Node.Lookup("default")
	if n == nil || n.Kind == schema.NullNode {
		if f.typ.Kind() == reflect.Pointer && f.typ.Elem().Kind() == reflect.Struct {
			setObjectDefault(f, value)
		}
		return f, value
	}
	d := offline()
	if !d.Decode(literal(n), value.Addr().Interface()) {
		for _, p := range d.Problems() {
			p.Path = at.At("default").Path
			p.Message = "the default does not fit: " + p.Message
			b.report(p)
		}
	}
	return f, value
}

// setObjectDefault sets the default of an object that has none itself, but whose properties have some, unless others are required.
func setObjectDefault(f form, value reflect.Value) {
	object := value.Type().Elem()
	for p := range object.Fields() {
		if strings.Contains(p.Tag.Get("check"), "required") {
			return
		}
	}
	if !slices.ContainsFunc(f.properties, func(v reflect.Value) bool { return !v.IsZero() }) {
		return
	}
	value.Set(reflect.New(object))
	for i, v := range f.properties {
		value.Elem().Field(i).Set(v)
	}
}

// follow returns the schema that a reference within the document leads to, or the only alternative to null.
func (b *fieldBuilder) follow(at schema.Place) schema.Place {
	for range 100 {
		n := at.Node
		if ref := n.Lookup("$ref"); ref != nil {
			to, ok := b.target(ref.Text)
			if !ok {
				return at
			}
			at = to
			continue
		}
		alone := n.Lookup("allOf")
		if n.Lookup("type") == nil && n.Lookup("properties") == nil && alone != nil && len(alone.Items) == 1 {
			at = at.At("allOf").Item(0)
			continue
		}
		name := "anyOf"
		if n.Lookup(name) == nil {
			name = "oneOf"
		}
		any := n.Lookup(name)
		if any == nil || len(any.Items) != 2 || n.Lookup("type") != nil || n.Lookup("properties") != nil {
			return at
		}
		null := slices.IndexFunc(any.Items, func(n *schema.Node) bool { t := n.Lookup("type"); return t != nil && t.Text == "null" })
		if null < 0 {
			return at
		}
		at = at.At(name).Item(1 - null)
	}
	return at
}

// target returns the place of a reference such as #/$defs/model.
func (b *fieldBuilder) target(ref string) (schema.Place, bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	at := b.root
	for step := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		if step == "" {
			continue
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if at.Node.Find(step) == nil {
			return at, false
		}
		at = at.At(step)
	}
	return at, ok
}

// form returns the form of a schema. Its documentation may be beside a reference.
func (b *fieldBuilder) form(at schema.Place) (f form) {
	defer func(n *schema.Node) {
		if text := wordsOf(n); text != "" {
			f.doc = text
		}
	}(at.Node)
	at = b.follow(at)
	n := at.Node
	if n.Kind != schema.MapNode || slices.Contains(b.open, n) || b.overLimit() {
		return form{typ: node}
	}
	b.open = append(b.open, n)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	b.checkWords(at)
	f.doc = wordsOf(n)
	kind := typeOf(n)
	hidden := isTrue(n.Lookup("writeOnly")) || n.Find("format") != nil && n.Lookup("format").Text == "password"
	if hidden && kind != "string" {
		b.complain(at, "only text can be secret", "write `type: string`, or remove writeOnly and `format: password`")
	}
	switch kind {
	case "string":
		f.typ = reflect.TypeFor[string]()
		if hidden {
			f.typ = reflect.TypeFor[schema.Secret]()
		}
		f.check = choices(n)
	case "integer":
		f.typ = reflect.TypeFor[int64]()
		f.check = append(bounds(n, func(s string) bool { _, err := strconv.ParseInt(s, 10, 64); return err == nil }), choices(n)...)
	case "number":
		f.typ = reflect.TypeFor[float64]()
		f.check = bounds(n, func(s string) bool { _, err := strconv.ParseFloat(s, 64); return err == nil })
	case "boolean":
		f.typ = reflect.TypeFor[bool]()
	case "array":
		if items := n.Lookup("items"); items != nil && items.Kind == schema.MapNode && n.Lookup("prefixItems") == nil {
			item := b.form(at.At("items"))
			if item.typ != node {
				f.typ, f.check = reflect.SliceOf(item.typ), item.check
			}
		}
	case "object":
		f.typ = b.nested(at, &f)
	}
	if f.typ == nil {
		f.typ, f.embedded = node, b.embedded(at)
	}
	return f
}

// nested returns the type of an object inside the settings, or nil if it has no type of its own.
func (b *fieldBuilder) nested(at schema.Place, f *form) reflect.Type {
	more := at.Node.Lookup("additionalProperties")
	open := more != nil && more.Text != "false"
	switch {
	case at.Node.Lookup("patternProperties") != nil:
	case at.Node.Lookup("properties") != nil && !open:
		fields, defaults := b.object(at)
		f.properties = defaults
		return reflect.StructOf(fields)
	case at.Node.Lookup("properties") == nil && open && more.Kind == schema.MapNode:
		item := b.form(at.At("additionalProperties"))
		if item.typ != node {
			f.check = item.check
			return reflect.MapOf(reflect.TypeFor[string](), item.typ)
		}
	}
	return nil
}

// embedded returns a schema as JSON, with references replaced by what they refer to.
func (b *fieldBuilder) embedded(at schema.Place) string {
	text, err := json.Marshal(b.expanded(at, 0))
	if err != nil {
		return ""
	}
	return string(text)
}

// expanded returns a schema in the form of encoding/json without references. A schema inside itself may be anything.
func (b *fieldBuilder) expanded(at schema.Place, depth int) any {
	const deepest = 20
	n := at.Node
	if depth > deepest || b.overLimit() {
		return map[string]any{}
	}
	switch n.Kind {
	case schema.MapNode:
		if ref := n.Lookup("$ref"); ref != nil && ref.Kind == schema.TextNode {
			to, ok := b.target(ref.Text)
			if !ok || slices.Contains(b.open, to.Node) {
				return map[string]any{}
			}
			b.open = append(b.open, to.Node)
			defer func() { b.open = b.open[:len(b.open)-1] }()
			return b.expanded(to, depth+1)
		}
		m := map[string]any{}
		for _, key := range n.Keys {
			if key.Text != "$defs" && key.Text != "definitions" {
				m[key.Text] = b.expanded(at.At(key.Text), depth+1)
			}
		}
		return m
	case schema.ListNode:
		list := []any{}
		for i := range n.Items {
			list = append(list, b.expanded(at.Item(i), depth+1))
		}
		return list
	}
	return jsonschema.FromNode(offline(), literal(n))
}

// typeOf returns the JSON type of a schema's values, or "" if they may have several. null beside another type means that the
// setting may be missing.
func typeOf(n *schema.Node) string {
	t := n.Lookup("type")
	switch {
	case t == nil && n.Lookup("properties") != nil:
		return "object"
	case t == nil && n.Lookup("items") != nil:
		return "array"
	case t == nil && len(choices(n)) > 0:
		return "string"
	case t == nil:
		return ""
	case t.Kind == schema.TextNode:
		return t.Text
	}
	var types []string
	for _, item := range t.Items {
		if item.Text != "null" && item.Kind == schema.TextNode {
			types = append(types, item.Text)
		}
	}
	if len(types) == 1 {
		return types[0]
	}
	return ""
}

// wordsOf returns the documentation of a schema on one line.
func wordsOf(n *schema.Node) string {
	text := ""
	for _, name := range []string{"title", "description"} {
		if words := n.Lookup(name); words != nil && words.Kind == schema.TextNode {
			text = strings.Join(strings.Fields(words.Text), " ")
		}
	}
	if isTrue(n.Lookup("deprecated")) {
		text = strings.TrimSpace(text + " Deprecated.")
	}
	return text
}

func isTrue(n *schema.Node) bool {
	return n != nil && n.Kind == schema.BoolNode && strings.EqualFold(n.Text, "true")
}

// choices returns the rule for the values in `enum` or `const`, if a tag can express it.
func choices(n *schema.Node) []string {
	var words []string
	list := n.Lookup("enum")
	if one := n.Lookup("const"); one != nil {
		list = &schema.Node{Items: []*schema.Node{one}}
	}
	if list == nil {
		return nil
	}
	for _, item := range list.Items {
		if item.Kind == schema.NullNode {
			continue
		}
		if item.Kind != schema.TextNode && item.Kind != schema.IntNode || item.Text == "" || strings.ContainsAny(item.Text, "|,=\"\\`\n") {
			return nil
		}
		words = append(words, item.Text)
	}
	if len(words) == 0 {
		return nil
	}
	return []string{"oneof=" + strings.Join(words, "|")}
}

// bounds returns the rules for the limits of a number, if the field's type can express them.
func bounds(n *schema.Node, ok func(string) bool) (rules []string) {
	for rule, keyword := range map[string]string{"min": "minimum", "max": "maximum"} {
		if limit := n.Lookup(keyword); limit != nil && ok(limit.Text) {
			rules = append(rules, rule+"="+limit.Text)
		}
	}
	slices.Sort(rules)
	return rules
}
