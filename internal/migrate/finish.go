package migrate

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

var metaName = pattern(`\bmeta\("([a-z0-9_]+)"\)`)

// finish writes the translation to a file.
func (t *translator) finish(name, why string, root *yaml.Node, onlyResources bool) error {
	if t.deadLater != "" {
		putAt(t.engine, "on_failure.dead_letter", scalar(t.deadLater))
	}
	resources := mapping()
	for _, section := range []string{"caches", "rate_limits", "registries", "steps"} {
		if r := t.resources[section]; r != nil && len(r.Content) > 0 {
			put(resources, section, r)
		}
	}
	steps := list(t.steps...)
	tests := list()
	if t.tests != nil {
		tests = t.tests
	}
	body := []section{
		{"inputs", t.inputs, ""}, {"processors", steps, ""}, {"batchers", t.batchers, ""}, {"outputs", t.outputs, ""},
		{"engine", t.engine, ""}, {"resources", resources, ""}, {"service", t.service, ""}, {"tests", tests, ""},
	}
	if onlyResources {
		body = []section{{"resources", resources, ""}, {"tests", tests, ""}}
	}
	t.sayFailures(body)
	body[0].head, t.pending = join(t.pending, body[0].head), ""
	var names []string
	for _, s := range body {
		t.rename(s.value)
		names = envNames(s.value, names)
	}
	if len(names) > 0 {
		all := list()
		for _, n := range names {
			all.Content = append(all.Content, scalar(n))
		}
		put(t.engine, "env", all)
	}
	t.comments(root, body)
	var sections []section
	for _, s := range body {
		if len(s.value.Content) > 0 {
			reveal(s.value, t.src.env)
			s.head = t.src.env.original(s.head)
			sections = append(sections, s)
		}
	}
	if len(t.extra) > 0 {
		all, reasons := mapping(), list()
		for _, p := range t.extra {
			all.Content = append(all.Content, p.key, p.value)
			reason := fmt.Sprintf("section %s is not known", p.key.Value)
			reasons.Content = append(reasons.Content, scalar(t.src.env.show(reason)))
		}
		sections = append(sections, section{"untranslated", reasons, quoted(all, t.src.env)})
	}
	head := root.HeadComment
	if why != "" {
		head = commented("The tests of " + why + ", which need a pipeline of their own; the others are in " +
			base(t.file) + ".yaml.")
	}
	for _, line := range t.heads {
		if len(sections) > 0 {
			sections[0].head = join(sections[0].head, commented("Differs: "+line))
		}
	}
	data, err := write(t.src.env.original(head), sections, t.src.env)
	if err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	if root.FootComment != "" && why == "" {
		data = append(data, "\n"+t.src.env.original(root.FootComment)+"\n"...)
	}
	t.res.Outputs = append(t.res.Outputs, Output{name, data, why})
	return nil
}

// comments puts comments of the source's top-level keys above the sections that replace them.
func (t *translator) comments(root *yaml.Node, body []section) {
	became := map[string]string{"input": "inputs", "buffer": "inputs", "input_resources": "inputs",
		"pipeline": "processors", "output": "outputs", "output_resources": "outputs", "cache_resources": "resources",
		"rate_limit_resources": "resources",
		"processor_resources":  "resources", "resources": "resources", "http": "service", "logger": "service",
		"metrics": "service", "tracer": "service", "tests": "tests", "shutdown_timeout": "engine"}
	at := func(name string) *section {
		for i := range body {
			if body[i].name == name && len(body[i].value.Content) > 0 {
				return &body[i]
			}
		}
		for i := range body {
			if len(body[i].value.Content) > 0 {
				return &body[i]
			}
		}
		return &body[0]
	}
	var have []string
	for _, s := range body {
		have = append(have, commentsOf(s.value)...)
	}
	for i, p := range pairsOf(root) {
		s := at(became[p.key.Value])
		if first := at(""); i == 0 && s != first { // comments on the whole file
			first.head = join(p.key.HeadComment, first.head)
			have = append(have, commentsOf(&yaml.Node{HeadComment: p.key.HeadComment})...)
		}
		s.head = join(missing(append(commentsOf(p.key), commentsOf(p.value)...), have), s.head)
	}
}

// windowEnd is metadata that a window sets in the source system.
const windowEnd = "window_end_timestamp"

// rename replaces the source system's names of input metadata by flowd's.
func (t *translator) rename(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Value = metaName().ReplaceAllStringFunc(n.Value, func(call string) string {
			if call == `meta("`+windowEnd+`")` && t.windowed() {
				return "string(window().end)"
			}
			if ours := t.metadata[call[6:len(call)-2]]; ours != "" {
				return `meta("` + ours + `")`
			}
			return call
		})
	}
	for _, c := range n.Content {
		t.rename(c)
	}
}

// envNames adds the variables that expressions read.
func envNames(n *yaml.Node, names []string) []string {
	if n.Kind == yaml.ScalarNode {
		for _, name := range bloblang.Environment(n.Value) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, c := range n.Content {
		names = envNames(c, names)
	}
	return names
}

const failuresDiffer = "a message that a step fails skips the others and goes where engine.on_failure says; " +
	"there it went on, as it was, to the output"

// canFail are steps that fail on ordinary messages.
var canFail = []string{"set", "map", "http", "sql", "redis", "decode", "decompress", "exec", "validate", "branch",
	"split",
	"meta", "payload", "fail", "cache", "steps", "parallel", "switch", "encode"}

// sayFailures adds one comment, above the steps, on the fate of messages that fail without an on_error.
func (t *translator) sayFailures(body []section) {
	for i, s := range body {
		if s.name != "processors" || t.deadLater != "" || t.rejects {
			continue
		}
		for _, step := range s.value.Content {
			if !has(step, "on_error") && slices.ContainsFunc(canFail, func(kind string) bool { return has(step, kind) }) {
				t.note(Differs, lookupOr(t.src.root, "pipeline"), failuresDiffer)
				body[i].head = commented("Differs: " + failuresDiffer)
				return
			}
		}
	}
}
