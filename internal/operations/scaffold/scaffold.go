// Package scaffold writes new pipeline files for `flowd new`, out of the examples in the documentation of components.
// Start at [Write].
package scaffold

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Parts are the types of the components of a pipeline.
type Parts struct{ Inputs, Steps, Outputs []string }

// Write returns a pipeline with these components, with comments and a first test.
func Write(p Parts) (string, error) {
	w := writer{sections: map[string]yamltext.Value{}, names: map[string][]string{}}
	for _, typ := range p.Inputs {
		add(&w, engine.Inputs, "inputs", typ)
	}
	for _, typ := range p.Steps {
		w.addStep(typ)
	}
	for _, typ := range p.Outputs {
		add(&w, engine.Outputs, "outputs", typ)
	}
	w.addBatchers()
	w.addTest()
	return w.text()
}

// order is the order of the sections of a file.
var order = []string{"inputs", "processors", "batchers", "outputs", "resources", "engine", "service", "tests"}

// writer collects the sections of a file.
type writer struct {
	sections  map[string]yamltext.Value
	names     map[string][]string // of inputs, outputs and steps, by section
	batch     []yamltext.Value    // steps for whole batches
	composite bool                // an output only passes messages on
	err       error
}

// add adds an input or output.
func add[T any](w *writer, r *engine.Registry[T], section, typ string) {
	spec := lookUp(w, r, typ)
	if spec == nil {
		return
	}
	for _, example := range examples(spec.Doc) {
		root := valueOf(example)
		for _, c := range root.Get(section).Pairs() {
			if !c.Get(typ).Exists() {
				continue
			}
			w.take(root)
			if typ == "sequence" || slices.Contains([]string{"fallback", "round_robin", "partition"}, typ) {
				w.composite = w.composite || section == "outputs"
				w.takeSection(root, section, typ) // it names the others
				return
			}
			w.put(section, w.free(section, typ), described(c, typ, spec.Doc, spec.Type))
			return
		}
	}
	w.fail("the documentation of %s %s has no example of it", r.Kind(), typ)
}

// lookUp returns a component, or nil if there is none.
func lookUp[T any](w *writer, r *engine.Registry[T], typ string) *engine.Spec[T] {
	spec := r.Lookup(typ)
	if spec == nil {
		remedy := "flowd list " + r.Kind() + "s shows all"
		if near := schema.Nearest(typ, r.Names()); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		w.fail("there is no %s %q (%s)", r.Kind(), typ, cmp.Or(r.Remedy(typ), remedy))
	}
	return spec
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// addStep adds a step to those of the pipeline, or of a batcher if the example has it in one.
func (w *writer) addStep(typ string) {
	spec := lookUp(w, engine.Processors, typ)
	if spec == nil {
		return
	}
	for _, example := range examples(spec.Doc) {
		root := valueOf(example)
		steps := append(root.Items(), root.Get("processors").Items()...)
		single := len(steps)
		for _, section := range []string{"batchers", "outputs"} {
			for _, c := range root.Get(section).Pairs() {
				steps = append(steps, c.Get("processors").Items()...)
			}
		}
		for i, step := range steps {
			if !step.Get(typ).Exists() {
				continue
			}
			w.take(root)
			w.names["steps"] = append(w.names["steps"], nameOf(step, typ))
			text := described(step, typ, "", spec.Type).Commented(sentence(spec.Doc))
			if i < single {
				w.appendTo("processors", text)
			} else {
				w.batch = append(w.batch, text)
			}
			return
		}
	}
	w.fail("the documentation of %s %s has no example of it", engine.Processors.Kind(), typ)
}

// nameOf returns the name of a step in tests.
func nameOf(step yamltext.Value, typ string) string {
	switch name := step.Get("name"); {
	case name.Exists():
		return name.Text()
	case typ == "steps":
		for key := range step.Get(typ).Pairs() {
			return key.Text()
		}
		return step.Get(typ).Text()
	}
	return typ
}

// take adds the resources, engine and service of an example.
func (w *writer) take(root yamltext.Value) {
	for _, section := range []string{"resources", "engine", "service"} {
		for key, value := range root.Get(section).Pairs() {
			if !w.sections[section].Get(key.Text()).Exists() {
				w.put(section, key.Text(), value)
			}
		}
	}
}

// takeSection adds all components of a section of an example.
func (w *writer) takeSection(root yamltext.Value, section, typ string) {
	for key, c := range root.Get(section).Pairs() {
		w.put(section, w.free(section, key.Text()), c)
	}
	if n := len(w.names[section]); n > 0 && section == "outputs" { // messages go to the one that names the others
		for key, c := range root.Get(section).Pairs() {
			if c.Get(typ).Exists() {
				w.names[section] = append(w.names[section][:0], key.Text())
			}
		}
	}
}

// free returns a name that no component of the section has.
func (w *writer) free(section, name string) string {
	free := name
	for i := 2; w.sections[section].Get(free).Exists(); i++ {
		free = fmt.Sprintf("%s%d", name, i)
	}
	w.names[section] = append(w.names[section], free)
	return free
}

func (w *writer) put(section, key string, value yamltext.Value) {
	if !w.sections[section].Exists() {
		w.sections[section] = yamltext.Mapping()
	}
	w.sections[section].Append(yamltext.Text(key), value)
}

func (w *writer) appendTo(section string, value yamltext.Value) {
	if !w.sections[section].Exists() {
		w.sections[section] = yamltext.List()
	}
	w.sections[section].Append(value)
}

// described returns a component with comments: what it does, and what each of its fields means.
func described(c yamltext.Value, typ, about string, t *schema.Type) yamltext.Value {
	docs := map[string]string{}
	for _, f := range t.Fields() {
		docs[f.Path] = sentence(f.Doc)
	}
	all := yamltext.Mapping()
	for key, value := range c.Pairs() {
		if key.Text() != typ {
			all.Append(key, value)
			continue
		}
		if value.IsMapping() {
			fields := yamltext.Mapping()
			for k, v := range value.Pairs() {
				fields.Append(k.Commented(docs[k.Text()]), v)
			}
			value = fields
		}
		all.Append(key.Commented(sentence(about)), value)
	}
	return all
}

// sentence returns the first sentence of a text.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}

// addBatchers adds a batcher if there are steps for batches, or several outputs.
func (w *writer) addBatchers() {
	outputs := w.names["outputs"]
	if len(w.batch) == 0 && len(outputs) < 2 {
		return
	}
	all := yamltext.Mapping()
	if len(w.batch) > 0 {
		all.Append(yamltext.Text("batch"), yamltext.Mapping(yamltext.Text("size"), yamltext.Plain("100"),
			yamltext.Text("timeout"), yamltext.Text("1s")).OneLine(), yamltext.Text("processors"), yamltext.List(w.batch...))
	}
	to := yamltext.List()
	for _, name := range outputs {
		to.Append(yamltext.Text(name))
	}
	if len(outputs) == 1 {
		to = yamltext.Text(outputs[0])
	}
	all.Append(yamltext.Text("output"), to)
	w.put("batchers", "all", all)
}

// addTest adds a test in which one message passes. All steps are mocked, since nothing is known about the messages yet.
func (w *writer) addTest() {
	message := yamltext.Mapping(yamltext.Text("json"), yamltext.Mapping(yamltext.Text("id"), yamltext.Plain("1"))).OneLine()
	input := message
	if len(w.names["inputs"]) > 1 {
		input = yamltext.Mapping(yamltext.Text("json"), yamltext.Mapping(yamltext.Text("id"), yamltext.Plain("1")),
			yamltext.Text("input"), yamltext.Text(w.names["inputs"][0])).OneLine()
	}
	test := yamltext.Mapping(yamltext.Text("name"), yamltext.Text("a message arrives"), yamltext.Text("input"),
		yamltext.List(input))
	mocks := yamltext.Mapping()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(w.names["steps"]))) {
		mocks.Append(yamltext.Text(name), yamltext.Mapping().OneLine())
	}
	if mocks.IsMapping() {
		test.Append(yamltext.Text("mocks").Commented("Remove a mock, and the step itself runs. flowd test --update writes what arrives."),
			mocks.Lines())
	}
	rows := yamltext.Mapping()
	for name, table := range w.sections["resources"].Get("tables").Pairs() {
		none := yamltext.Mapping() // by IP address
		if table.Get("key").Exists() {
			none = yamltext.List()
		}
		rows.Append(name, none.OneLine())
	}
	if rows.IsMapping() {
		test.Append(yamltext.Text("tables"), rows)
	}
	if !w.composite {
		expect := yamltext.Mapping()
		for _, name := range w.names["outputs"] {
			expect.Append(yamltext.Text(name), yamltext.List(message))
		}
		test.Append(yamltext.Text("expect"), expect)
	}
	test.Append(yamltext.Text("acks"), yamltext.List(yamltext.Text("delivered")).OneLine())
	w.appendTo("tests", test)
}

// text returns the file.
func (w *writer) text() (string, error) {
	if w.err != nil {
		return "", w.err
	}
	w.addMissing()
	var b strings.Builder
	b.WriteString("# Written by flowd new. `flowd docs NAME` shows all settings of a component.\n")
	for _, section := range order {
		if !w.sections[section].Exists() {
			continue
		}
		text, err := yamltext.Render(yamltext.Mapping(yamltext.Text(section), w.sections[section]))
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + text)
	}
	return b.String(), nil
}

// addMissing declares caches and registries that the examples only name.
func (w *writer) addMissing() {
	text, err := yamltext.Render(yamltext.List(append(w.batch, w.sections["processors"].Items()...)...))
	if err != nil {
		w.err = err
		return
	}
	for _, missing := range []struct {
		name     string // a regular expression
		resource string
		value    yamltext.Value
	}{
		{`\b(?:get|set|add|delete|cache): (\w+)[,}\n]`, "caches", yamltext.Mapping(yamltext.Text("memory"), yamltext.Mapping().OneLine())},
		{`registry: (\w+)`, "registries", yamltext.Mapping(yamltext.Text("url"), yamltext.Text("http://localhost:8081"))},
	} {
		all := yamltext.Mapping()
		for _, m := range regexp.MustCompile(missing.name).FindAllStringSubmatch(text, -1) {
			if !all.Get(m[1]).Exists() {
				all.Append(yamltext.Text(m[1]), missing.value)
			}
		}
		if all.IsMapping() && !w.sections["resources"].Get(missing.resource).Exists() {
			w.put("resources", missing.resource, all)
		}
	}
}

// examples returns the parts of a component's documentation that are indented by four spaces.
func examples(doc string) (all []string) {
	var now strings.Builder
	for line := range strings.Lines(doc + "\nend\n") {
		switch {
		case strings.HasPrefix(line, "    "), strings.TrimSpace(line) == "" && now.Len() > 0:
			now.WriteString(strings.TrimPrefix(line, "    "))
		case now.Len() > 0:
			all = append(all, now.String())
			now.Reset()
		}
	}
	return all
}

// valueOf returns an example as a value; one that is not YAML is empty.
func valueOf(example string) yamltext.Value {
	e, err := yamltext.Edit("example", []byte(example))
	if err != nil {
		return yamltext.Value{}
	}
	return e.Root()
}
