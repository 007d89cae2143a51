package migrate

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// translate translates the whole file.
func (t *translator) translate() (*Result, error) {
	root := t.src.root
	t.define(root)
	t.collect(root)
	t.checkKeys(root)
	groups := t.testGroups()
	main := t.mainGroup(groups)
	if err := t.emit(root, main, groups); err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.done || g.why != "" {
			continue
		}
		if g.name == "" {
			g.name = "processors"
		}
		t.reset()
		if err := t.emitGroup(g); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(t.res.Notes, func(a, b Note) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
	return t.res, nil
}

// sectionsKnown are the sections of a configuration, including those translated elsewhere.
var sectionsKnown = []string{"input", "pipeline", "output", "buffer", "resources", "input_resources",
	"processor_resources",
	"output_resources", "cache_resources", "rate_limit_resources", "tests", "logger", "metrics", "http", "tracer",
	"shutdown_timeout", "shutdown_delay", "redpanda", "error_handling"}

// define collects the resources by kind and label, in their current and older form.
func (t *translator) define(root *yaml.Node) {
	t.defined = map[string]map[string]*yaml.Node{}
	add := func(kind, label string, n *yaml.Node) {
		if t.defined[kind] == nil {
			t.defined[kind] = map[string]*yaml.Node{}
		}
		t.defined[kind][label] = n
	}
	for _, from := range append(slices.Clone(t.src.others), root) {
		for _, kind := range []string{"input", "processor", "output", "cache", "rate_limit"} {
			for _, item := range items(lookup(from, kind+"_resources")) {
				add(kind, text(item, "label"), item)
			}
			for _, p := range pairsOf(lookup(from, "resources", kind+"s")) {
				add(kind, p.key.Value, p.value)
			}
		}
	}
	t.connected = lookup(root, "redpanda")
}

// order lists the labels of a kind in the order of the files.
func (t *translator) order(kind string) []string {
	var all []string
	for _, from := range append([]*yaml.Node{t.src.root}, t.src.others...) {
		for _, item := range items(lookup(from, kind+"_resources")) {
			all = append(all, text(item, "label"))
		}
		for _, p := range pairsOf(lookup(from, "resources", kind+"s")) {
			all = append(all, p.key.Value)
		}
	}
	return all
}

// collect searches the whole file for facts that other translations depend on: names of metadata, and caches of
// texts.
func (t *translator) collect(n *yaml.Node) {
	if t.metadata == nil {
		t.metadata = map[string]string{}
	}
	t.texts = map[string]bool{}
	t.walk(n)
}

func (t *translator) walk(n *yaml.Node) {
	for _, p := range pairsOf(n) {
		if e := components().Inputs[p.key.Value]; e != nil {
			for theirs, ours := range e.Metadata {
				t.metadata[theirs] = ours
			}
		}
		if p.key.Value == "cache" && p.value.Kind == yaml.MappingNode {
			operator, v := text(p.value, "operator"), text(p.value, "value")
			if (operator == "set" || operator == "add") && !strings.Contains(v, "content()") {
				t.texts[text(p.value, "resource")] = true
			}
		}
	}
	for _, c := range n.Content {
		t.walk(c)
	}
}

// checkKeys notes keys that contain placeholders.
func (t *translator) checkKeys(n *yaml.Node) {
	for _, p := range pairsOf(n) {
		if t.src.env.has(p.key.Value) {
			t.note(Untranslated, p.key, "a key can't depend on the environment: placeholders are replaced in values")
		}
	}
	for _, c := range n.Content {
		t.checkKeys(c)
	}
}

// emit translates the pipeline of the file, with the tests of a group.
func (t *translator) emit(root *yaml.Node, main *testGroup, groups []*testGroup) error {
	texts := t.texts
	t.reset()
	t.texts = texts
	in, out := lookup(root, "input"), lookup(root, "output")
	alone := in == nil && out == nil && lookup(root, "pipeline") == nil
	if in != nil && !isNull(in) {
		t.input(in, "")
	}
	if b := lookup(root, "buffer"); !empty(b) {
		t.buffer(b)
	}
	t.steps = append(t.steps, t.scoped()...)
	if alone && main != nil {
		t.steps = append(t.steps, t.target(main)...)
	} else if p := lookup(root, "pipeline"); p != nil {
		t.steps = append(t.steps, t.pipeline(lookup(p, "processors"))...)
		if n := text(p, "threads"); n != "" && n != "-1" && n != "0" {
			put(t.engine, "workers", code(n))
		}
	}
	if out != nil && !isNull(out) {
		t.setRoutes(t.output(out, ""))
	}
	t.topLevel(root)
	onlyResources := alone && main == nil
	if !onlyResources {
		t.defaults()
	}
	if main != nil && t.ownTests() {
		t.addTests(main)
		main.done = true
	}
	t.lostTests(groups)
	t.writeResources(true)
	return t.finish(base(t.file)+".yaml", "", root, onlyResources)
}

// defaults adds the default input and output.
func (t *translator) defaults() {
	if len(t.inputs.Content) == 0 {
		put(t.inputs, t.name("input", "stdin"), mapping("stdin", mapping()))
	}
	if len(t.outputs.Content) == 0 {
		put(t.outputs, t.name("output", "stdout"), mapping("stdout", mapping()))
	}
}

// pipeline translates processors: those that work on batches become a group, and grouping ones become batchers.
func (t *translator) pipeline(n *yaml.Node) []*yaml.Node { return t.pipelineOf(n, t.everyInput()) }

// pipelineOf is pipeline for some of the inputs.
func (t *translator) pipelineOf(n *yaml.Node, of []string) []*yaml.Node {
	all := items(n)
	for i, item := range all {
		c, why := t.open("processor", item)
		if why != "" {
			continue
		}
		switch c.key.Value {
		case "group_by_value", "group_by":
			head := t.steady(all[:i], of)
			t.group(c, item, all[i+1:])
			return head
		}
	}
	return t.steady(all, of)
}
