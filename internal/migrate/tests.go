package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// testGroup is the tests that one pipeline can run. In the source system, tests name a list of processors, and
// replace some by mocks.
type testGroup struct {
	name  string // "" for the pipeline of the file
	root  *yaml.Node
	steps []*yaml.Node // processors under test
	tests []*yaml.Node
	done  bool   // they are in the file of the pipeline
	why   string // why the tests can't be translated
}

// companions are suffixes of test files.
var companions = []string{"_benthos_test", "_bento_test", "_connect_test", "_test"}

// companionOf returns the file that a test file belongs to, or "".
func companionOf(file string) string {
	ext := filepath.Ext(file)
	for _, suffix := range companions {
		if name, ok := strings.CutSuffix(strings.TrimSuffix(file, ext), suffix); ok {
			return name + ext
		}
	}
	return ""
}

// testGroups returns the tests of the file, and of its test file, grouped by the pipeline that they need.
func (t *translator) testGroups() []*testGroup {
	tests := items(lookup(t.src.root, "tests"))
	ext := filepath.Ext(t.file)
	if companionOf(t.file) == "" {
		for _, suffix := range companions {
			name := base(t.file) + suffix + ext
			data, err := t.o.Read(name)
			if err != nil {
				continue
			}
			if other, err := parseWith(name, data, &t.src.env); err == nil {
				tests = append(tests, items(lookup(other, "tests"))...)
			}
		}
	}
	var groups []*testGroup
	for _, test := range tests {
		t.res.Tests.Of++
		g := t.groupOf(test)
		i := slices.IndexFunc(groups, func(other *testGroup) bool { return g.why == "" && other.same(g) })
		if i < 0 {
			groups = append(groups, g)
			i = len(groups) - 1
		}
		groups[i].tests = append(groups[i].tests, test)
	}
	seen := map[string]bool{}
	for _, g := range groups {
		for i := 2; g.name != "" && seen[g.name]; i++ {
			g.name = strings.TrimRight(g.name, "0123456789_") + "_" + strconv.Itoa(i)
		}
		seen[g.name] = true
	}
	return groups
}

func (g *testGroup) same(other *testGroup) bool {
	return g.why == "" && g.root == other.root && slices.Equal(g.steps, other.steps)
}

// mainGroup returns the group whose tests are in the file of the pipeline itself.
func (t *translator) mainGroup(groups []*testGroup) *testGroup {
	root := t.src.root
	alone := lookup(root, "input") == nil && lookup(root, "output") == nil && lookup(root, "pipeline") == nil
	for _, g := range groups {
		if g.why == "" && (g.name == "" || alone) {
			return g
		}
	}
	return nil
}

// target translates the processors of a group.
func (t *translator) target(g *testGroup) []*yaml.Node {
	var all []*yaml.Node
	for _, n := range g.steps {
		if label := text(n, "label"); label != "" && t.defined["processor"][label] == n {
			n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{
				{Kind: yaml.ScalarNode, Value: "resource", Line: n.Line, Column: n.Column},
				{Kind: yaml.ScalarNode, Value: label, Tag: "!!str", Line: n.Line, Column: n.Column}}}
		}
		all = append(all, n)
	}
	return t.pipeline(seq(all))
}

// emitGroup writes a pipeline for tests that the file's pipeline can't run.
func (t *translator) emitGroup(g *testGroup) error {
	root := t.src.root
	t.src.root = g.root
	defer func() { t.src.root = root; t.define(root) }()
	t.define(g.root)
	components := t.res.Components
	t.steps = append(t.steps, t.target(g)...)
	t.defaults()
	t.setRoutes([]route{{name: "stdout", outputs: []string{"stdout"}}})
	t.addTests(g)
	t.writeResources(false)
	t.res.Components = components // counted in the file itself
	name := base(t.file) + "." + g.name + ".yaml"
	empty := mapping()
	if err := t.finish(name, g.name, empty, false); err != nil {
		return err
	}
	return nil
}

// ownTests reports whether the tests of processors can run in the pipeline itself, since messages pass nothing else.
func (t *translator) ownTests() bool {
	if len(t.batchers.Content) > 0 || len(t.inputs.Content) > 2 || len(t.outputs.Content) > 2 || t.deadLater != "" {
		return false
	}
	for _, section := range []*yaml.Node{t.inputs, t.outputs} {
		for _, p := range pairsOf(section) {
			if has(p.value, "processors") {
				return false
			}
		}
	}
	return true
}

// lostTests puts tests without a counterpart into the file of the pipeline.
func (t *translator) lostTests(groups []*testGroup) {
	for _, g := range groups {
		for _, test := range g.tests {
			if g.why != "" {
				if t.tests == nil {
					t.tests = list()
				}
				t.tests.Content = append(t.tests.Content, t.lost(test, g.why))
			}
		}
	}
}

// addTests translates the tests of a group.
func (t *translator) addTests(g *testGroup) {
	t.tests = list()
	output := "stdout"
	if len(t.outputs.Content) > 0 {
		output = t.outputs.Content[0].Value
	}
	for _, test := range g.tests {
		made, why := t.test(test, output)
		if why != "" {
			made = t.lost(test, why)
		} else {
			t.res.Tests.Whole++
		}
		adopt(made, test)
		t.tests.Content = append(t.tests.Content, made)
	}
}

// test translates one test.
func (t *translator) test(test *yaml.Node, output string) (*yaml.Node, string) {
	n := mapping("name", text(test, "name"))
	if env := lookup(test, "environment"); !empty(env) {
		put(n, "env", plainCopy(env))
	}
	grouped := slices.ContainsFunc(t.steps, func(s *yaml.Node) bool { return has(s, "group") })
	var messages []*yaml.Node
	batches := items(lookup(test, "input_batches"))
	if one := lookup(test, "input_batch"); one != nil {
		batches = []*yaml.Node{one}
	}
	for i, batch := range batches {
		for _, m := range items(batch) {
			made, why := t.testInput(m)
			if why != "" {
				return nil, why
			}
			if grouped && i > 0 {
				put(made, "at", code(strconv.Itoa(i)+"m"))
			}
			messages = append(messages, made)
		}
	}
	if len(messages) == 0 {
		messages = append(messages, mapping("text", ""))
	}
	put(n, "input", list(messages...))
	mocks := mapping()
	for _, p := range pairsOf(lookup(test, "mocks")) {
		if m, ok := t.mock(p); ok {
			put(mocks, p.key.Value, m)
		}
	}
	expected := list()
	failed, passed := 0, 0
	for _, batch := range items(lookup(test, "output_batches")) {
		for _, m := range items(batch) {
			made, fails, why := t.expectation(m)
			switch {
			case why != "":
				return nil, why
			case fails:
				failed++
			default:
				passed++
				expected.Content = append(expected.Content, made)
			}
		}
	}
	put(n, "expect", mapping(output, expected))
	if failed > 0 {
		fates := mapping("dropped", code(strconv.Itoa(failed)))
		if ended := len(messages) - failed; ended > 0 && passed > 0 {
			put(fates, "delivered", code(strconv.Itoa(passed)))
			if filtered := ended - passed; filtered > 0 {
				put(fates, "filtered", code(strconv.Itoa(filtered)))
			}
		}
		put(n, "fates", fates)
		put(n, "takes_back", scalar("nothing"))
	}
	if len(mocks.Content) > 0 {
		put(n, "mocks", mocks)
	}
	return n, ""
}

// testInput translates an input message of a test.
func (t *translator) testInput(m *yaml.Node) (*yaml.Node, string) {
	n := mapping()
	for _, p := range pairsOf(m) {
		switch p.key.Value {
		case "content":
			body(n, p.value.Value)
		case "json_content":
			put(n, "json", plainCopy(p.value))
		case "file_content":
			data, err := t.o.Read(p.value.Value)
			if err != nil || !utf8.Valid(data) {
				return nil, fmt.Sprintf("the file %s can't be read as text", p.value.Value)
			}
			body(n, string(data))
		case "metadata":
			if !empty(p.value) {
				put(n, "meta", plainCopy(p.value))
			}
		default:
			return nil, fmt.Sprintf("%s of a message of a test is not known", p.key.Value)
		}
	}
	if len(n.Content) == 0 || !has(n, "json") && !has(n, "text") {
		put(n, "text", scalar(""))
	}
	adopt(n, m)
	return n, ""
}

// body writes a payload, as a document if it is one.
func body(n *yaml.Node, content string) {
	if doc, ok := jsonNode(content); ok {
		put(n, "json", doc)
		return
	}
	put(n, "text", scalar(content))
}

var expectsFailure = pattern(`^\s*(errored\(\)|error\(\)\s*(==|\.).*)$`)

// expectation translates the expectations for a message. fails says that it must have failed.
func (t *translator) expectation(m *yaml.Node) (made *yaml.Node, fails bool, why string) {
	n := mapping()
	var conditions []string
	for _, p := range pairsOf(m) {
		v := p.value
		switch p.key.Value {
		case "content_equals":
			body(n, v.Value)
		case "json_equals":
			if doc, ok := jsonNode(v.Value); ok && v.Kind == yaml.ScalarNode {
				put(n, "json", doc)
			} else {
				put(n, "json", plainCopy(v))
			}
		case "file_equals", "file_json_equals":
			data, err := t.o.Read(v.Value)
			if err != nil || !utf8.Valid(data) {
				return nil, false, fmt.Sprintf("the file %s can't be read as text", v.Value)
			}
			body(n, string(data))
		case "content_matches":
			conditions = append(conditions, "raw() matches "+quote(v.Value))
		case "json_contains", "file_json_contains":
			doc := v
			if p.key.Value == "file_json_contains" {
				data, err := t.o.Read(v.Value)
				if err != nil {
					return nil, false, fmt.Sprintf("the file %s can't be read", v.Value)
				}
				doc = scalar(string(data))
			}
			if doc.Kind == yaml.ScalarNode {
				parsed, ok := jsonNode(doc.Value)
				if !ok {
					return nil, false, "json_contains has no JSON"
				}
				doc = parsed
			}
			conditions = contains(conditions, "this", doc)
		case "metadata_equals":
			put(n, "meta", plainCopy(v))
		case "bloblang":
			src := strings.TrimSpace(v.Value)
			switch {
			case src == "!errored()":
			case expectsFailure().MatchString(src):
				fails = true
			default:
				conditions = append(conditions, brackets(t.query(n, v, src, ctx{})))
			}
		default:
			return nil, false, fmt.Sprintf("the condition %s of a test has no counterpart", p.key.Value)
		}
	}
	switch {
	case len(conditions) == 1 && closing(conditions[0][1:]) == len(conditions[0])-2:
		put(n, "matches", code(strings.TrimSuffix(strings.TrimPrefix(conditions[0], "("), ")")))
	case len(conditions) > 0:
		put(n, "matches", code(strings.Join(conditions, " and ")))
	}
	adopt(n, m)
	return n, fails, ""
}
