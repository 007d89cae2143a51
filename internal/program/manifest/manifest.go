// Package manifest makes a type of component out of a folder with a program: its file plugin.yaml says what the program is,
// how it is started, and which settings it takes, as JSON Schema. Start at [Load].
//
// Such a type is another way to write the component `program`: the settings in a pipeline file become its `config`, and the
// manifest has its other fields. fields.go turns the JSON Schema into a Go struct, so that everything that package schema
// does for other components also works for these: decoding, lint, docs, the JSON Schema of pipeline files. values.go turns
// decoded settings into the `config` of the program.
package manifest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/jsonschema"
	"github.com/flowd-io/flowd/schema"
)

// base is the name of the component that types of manifests stand for, and the key for the settings of the process.
const base = "program"

// processField is the Go name of the field for the settings of the process.
const processField = "Program"

// head are the fields of a manifest beside those of the component program.
type head struct {
	Name        string         `yaml:"name" check:"required" doc:"Name of the type, as in pipeline files."`
	Kind        string         `yaml:"kind" check:"required,oneof=step|input|output" doc:"What the program is."`
	Summary     string         `yaml:"summary" doc:"One sentence for lists of components."`
	Description string         `yaml:"description" doc:"What the type does, as Markdown, for flowd docs."`
	Config      *schema.Node   `yaml:"config" doc:"JSON Schema of the settings: an object. Without it there are none."`
	Examples    []*schema.Node `yaml:"examples" doc:"Pieces of pipeline files, each as text, that use the type."`
}

// manifest is one plugin.yaml.
type manifest struct {
	head
	kind    *kind
	program *schema.Type // of the component program, which may be removed from the registry later
	folder  string       // absolute
	root    *schema.Node // the whole file
	rules   *jsonschema.Schema
	typ     *schema.Type
}

// kind is what a program can be.
type kind struct {
	spec any // of a component of this kind: its common keys
	// program returns the type of the component program.
	program func() *schema.Type
	// register adds a type with the implementation of the component program. It returns false if the name is taken.
	register func(name, doc string, t *schema.Type) bool
}

var kinds = map[string]*kind{
	"step":   newKind(engine.Processors, engine.StepSpec{}),
	"input":  newKind(engine.Inputs, engine.InputSpec{}),
	"output": newKind(engine.Outputs, engine.OutputSpec{}),
}

func newKind[T any](r *engine.Registry[T], spec any) *kind {
	return &kind{
		spec:    spec,
		program: func() *schema.Type { return r.Variant(base) },
		register: func(name, doc string, t *schema.Type) bool {
			return r.Replace(engine.Spec[T]{Name: name, Doc: doc, Type: t, Build: r.Lookup(base).Build})
		},
	}
}

// read reads a manifest and registers its type, unless taken returns another manifest of this type. It reports all problems.
// It returns nil if there is no type.
func read(file string, text []byte, taken func(*manifest) string, report func(...schema.Problem)) *manifest {
	root, problems := yamltext.Parse(file, text)
	if root == nil {
		report(problems...)
		return nil
	}
	m := &manifest{folder: filepath.Dir(file), root: root}
	if abs, err := filepath.Abs(m.folder); err == nil {
		m.folder = abs
	}
	at := schema.Place{Node: root}
	m.kind = kinds["step"] // also if the kind is not valid
	if n := root.Lookup("kind"); n != nil && kinds[n.Text] != nil {
		m.kind = kinds[n.Text]
	}
	if m.program = m.kind.program(); m.program == nil {
		report(at.At("kind").Problem(schema.Problem{Code: schema.BadValue, Message: "this build of flowd has no component program",
			Remedy: "use a build that has it"}))
		return nil
	}
	problems = append(problems, m.decode()...)
	problems = append(problems, m.checkName(at.At("name"), taken)...)
	problems = append(problems, m.makeType(at.At("config"), wrong(problems))...)
	report(problems...)
	if wrong(problems) {
		return nil
	}
	if !m.kind.register(m.Name, m.doc(), m.typ) {
		report(at.At("name").Problem(schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("flowd has the %s %q already", m.Kind, m.Name),
			Remedy: "choose another name"}))
		return nil
	}
	for i := range m.Examples {
		report(m.checkExample(at.At("examples").Item(i))...)
	}
	return m
}

func wrong(problems []schema.Problem) bool {
	return slices.ContainsFunc(problems, func(p schema.Problem) bool { return !p.Warning })
}

// decode decodes the file strictly: its own fields, and those of the component program.
func (m *manifest) decode() []schema.Problem {
	fields := structFields(reflect.TypeFor[head]())
	fields = append(fields, structFields(reflect.TypeOf(m.program.New()), "config")...)
	d := offline()
	v := reflect.New(structOf(fields))
	d.Decode(m.root, v.Interface())
	h := reflect.ValueOf(&m.head).Elem()
	for i := range h.NumField() {
		h.Field(i).Set(v.Elem().Field(i))
	}
	return resolvable(d.Problems())
}

// offline returns a decoder that knows no values of placeholders. Manifests are checked without an environment.
func offline() *schema.Decoder {
	return schema.NewDecoder(func(string) (string, bool, error) { return "", false, nil })
}

// resolvable leaves out problems of placeholders without a value: they may have one when a pipeline uses the type.
func resolvable(problems []schema.Problem) []schema.Problem {
	return slices.DeleteFunc(problems, func(p schema.Problem) bool { return p.Code == schema.UnresolvedPlaceholder })
}

var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]*$`) })

func (m *manifest) checkName(at schema.Place, taken func(*manifest) string) []schema.Problem {
	p := schema.Problem{Code: schema.BadValue, Remedy: "choose another name"}
	other := taken(m)
	switch {
	case m.Name == "": // reported already
		return nil
	case !validName().MatchString(m.Name):
		p.Message = strconv.Quote(m.Name) + " can't be the name of a component"
		p.Remedy = "use lower-case letters, digits and _, and begin with a letter"
	case slices.Contains(schema.Of(m.kind.spec).Keys(), m.Name):
		p.Message = fmt.Sprintf("%q is a field of every %s", m.Name, m.Kind)
	case other != "":
		p.Message = fmt.Sprintf("the %s %q is already defined in %s", m.Kind, m.Name, other)
	default:
		return nil
	}
	return []schema.Problem{at.Problem(p)}
}

// makeType makes the type of the component. known says that there are problems already; then it reports only those of the
// JSON Schema.
func (m *manifest) makeType(at schema.Place, known bool) (problems []schema.Problem) {
	d := offline()
	into := wrapped(m.program)
	d.Decode(m.process(nil, nil), into.Interface())
	if !known {
		problems = resolvable(d.Problems())
	}
	for i, p := range problems {
		problems[i].Path = strings.TrimPrefix(p.Path, base+".")
	}
	b := &fieldBuilder{root: at}
	var fields []reflect.StructField
	var values []reflect.Value
	if m.Config != nil {
		fields, values = b.settings()
	}
	b.report(m.compile(at)...)
	problems = append(problems, b.problems...)
	if wrong(problems) {
		return problems
	}
	own := structFields(into.Elem().Field(0).Type(), "command", "dir", "config")
	process := reflect.New(structOf(own)).Elem()
	for i, f := range own {
		process.Field(i).Set(into.Elem().Field(0).FieldByIndex(f.Index))
	}
	fields = append(fields, reflect.StructField{Name: processField, Type: process.Type(), Tag: `yaml:"program" doc:"How the ` +
		`program runs: fields of the component program, in place of those in the manifest."`})
	config := reflect.New(reflect.StructOf(fields)).Elem()
	for i, v := range append(values, process) {
		config.Field(i).Set(v)
	}
	m.typ = schema.Of(config.Interface()).Through(m.finish)
	return problems
}

// compile compiles the JSON Schema.
func (m *manifest) compile(at schema.Place) (problems []schema.Problem) {
	var text any = true
	if m.Config != nil {
		text = jsonschema.FromNode(offline(), literal(m.Config))
	}
	var err error
	m.rules, err = jsonschema.Compile(text, jsonschema.Options{Format: true})
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*jsonschema.Invalid](err); ok {
		for _, f := range invalid.First {
			problems = append(problems, below(at, f.At).Problem(schema.Problem{Code: schema.BadValue, Message: f.Text,
				Remedy: "write a valid JSON Schema"}))
		}
		return problems
	}
	return []schema.Problem{at.Problem(schema.Problem{Code: schema.BadValue, Message: err.Error(), Remedy: "write a valid JSON Schema"})}
}

// below returns the place to which keys and indexes lead.
func below(at schema.Place, steps []string) schema.Place {
	for _, step := range steps {
		if i, err := strconv.Atoi(step); err == nil && at.Node != nil && at.Node.Kind == schema.ListNode {
			at = at.Item(i)
			continue
		}
		at = at.At(step)
	}
	return at
}

// wrapped returns a pointer to a struct with a field `program`: the component with its defaults.
func wrapped(program *schema.Type) reflect.Value {
	defaults := reflect.ValueOf(program.New())
	v := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Program", Type: defaults.Type(), Tag: `yaml:"program"`}}))
	v.Elem().Field(0).Set(defaults)
	return v
}

// process returns the component program as it would be written without the manifest. instead has fields that take the place
// of those in the manifest.
func (m *manifest) process(config, instead *schema.Node) *schema.Node {
	p := &schema.Node{Kind: schema.MapNode, Pos: m.root.Pos}
	own := schema.Of(head{}).Keys()
	for i, key := range m.root.Keys {
		item := m.root.Items[i]
		switch {
		case slices.Contains(own, key.Text) || key.Text == "dir":
			continue
		case instead.Find(key.Text) != nil:
			item = merged(item, instead.Lookup(key.Text))
		}
		p.Keys, p.Items = append(p.Keys, key), append(p.Items, item)
	}
	if instead != nil {
		for i, key := range instead.Keys {
			if m.root.Lookup(key.Text) == nil {
				p.Keys, p.Items = append(p.Keys, key), append(p.Items, instead.Items[i])
			}
		}
	}
	add := func(name string, item *schema.Node) {
		p.Keys = append(p.Keys, &schema.Node{Kind: schema.TextNode, Text: name, Pos: item.Pos})
		p.Items = append(p.Items, item)
	}
	add("dir", m.dir())
	if config != nil {
		add("config", config)
	}
	return &schema.Node{Kind: schema.MapNode, Pos: p.Pos, Items: []*schema.Node{p},
		Keys: []*schema.Node{{Kind: schema.TextNode, Text: base, Pos: p.Pos}}}
}

// dir returns the working directory of the program: the folder of the manifest, or one that it names, relative to this folder.
func (m *manifest) dir() *schema.Node {
	n := &schema.Node{Kind: schema.TextNode, Text: escaped(m.folder), Pos: m.root.Pos}
	if written := m.root.Lookup("dir"); written != nil {
		n.Pos = written.Pos
		if n.Text = written.Text; !filepath.IsAbs(written.Text) {
			n.Text = filepath.Join(escaped(m.folder), written.Text)
		}
	}
	return n
}

// merged returns the entries of two mappings, or the second value. null is as good as nothing.
func merged(a, b *schema.Node) *schema.Node {
	switch {
	case b.Kind == schema.NullNode:
		return a
	case a.Kind != schema.MapNode || b.Kind != schema.MapNode:
		return b
	}
	all := *b
	all.Keys, all.Items = slices.Clone(b.Keys), slices.Clone(b.Items)
	for i, key := range a.Keys {
		if b.Lookup(key.Text) == nil {
			all.Keys, all.Items = append(all.Keys, key), append(all.Items, a.Items[i])
		}
	}
	return &all
}

// finish makes the configuration of the component program out of settings in a pipeline file.
func (m *manifest) finish(d *schema.Decoder, n *schema.Node, settings any, ok bool) any {
	into := wrapped(m.program)
	if ok {
		config := valueOf(d, reflect.ValueOf(settings), n)
		m.check(d, n, config)
		d.Decode(m.process(config, n.Lookup(base)), into.Interface())
	}
	return into.Elem().Field(0).Interface()
}

// check reports what the JSON Schema says about settings beyond what their Go type says.
func (m *manifest) check(d *schema.Decoder, n, config *schema.Node) {
	text, err := json.Marshal(jsonschema.FromNode(d, config))
	if err == nil {
		err = m.rules.Check(context.Background(), text)
	}
	invalid, ok := errors.AsType[*jsonschema.Invalid](err)
	if err != nil && !ok {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: err.Error()})
	}
	if !ok {
		return
	}
	for _, f := range invalid.First {
		if isNullAlternative(f, invalid.First) {
			continue
		}
		at := below(schema.Place{Node: n}, f.At)
		path := d.Place(n).Path
		if at.Path != "" {
			path += "." + at.Path
		}
		d.Report(at.Node, schema.Problem{Path: path, Code: schema.BadValue, Message: f.Text,
			Remedy: "flowd docs " + m.Name + " shows what it takes"})
	}
}

// isNullAlternative reports whether a finding only says that a value might also be null, beside another one about the value.
func isNullAlternative(f jsonschema.Finding, all []jsonschema.Finding) bool {
	return strings.HasSuffix(f.Text, "want null") &&
		slices.ContainsFunc(all, func(o jsonschema.Finding) bool { return slices.Equal(o.At, f.At) && o.Text != f.Text })
}

// doc is the documentation: summary, description, examples.
func (m *manifest) doc() string {
	paragraphs := []string{cmp.Or(m.Summary, "A program")}
	if m.Summary == "" && m.Description != "" {
		paragraphs = nil
	}
	if len(paragraphs) > 0 && !strings.HasSuffix(paragraphs[0], ".") {
		paragraphs[0] += "."
	}
	if m.Description != "" {
		paragraphs = append(paragraphs, strings.TrimSpace(m.Description))
	}
	for _, n := range m.Examples {
		paragraphs = append(paragraphs, "    "+strings.ReplaceAll(strings.TrimSpace(n.Text), "\n", "\n    "))
	}
	return strings.Join(paragraphs, "\n\n")
}
