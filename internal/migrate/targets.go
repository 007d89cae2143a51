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

// groupOf finds the group of a test.
func (t *translator) groupOf(test *yaml.Node) *testGroup {
	root := t.src.root
	pipeline := items(lookup(root, "pipeline", "processors"))
	g := &testGroup{root: root}
	if target := text(test, "target_mapping"); target != "" {
		g.name = strings.TrimSuffix(filepath.Base(target), filepath.Ext(target))
		g.steps = []*yaml.Node{t.mappingFrom(target, test)}
	} else {
		target := text(test, "target_processors")
		if file, pointer, other := strings.Cut(target, "#"); other && file != "" {
			data, err := t.o.Read(file)
			if err == nil {
				g.root, err = parseWith(file, data, &t.src.env)
			}
			if err != nil {
				g.why = fmt.Sprintf("the file %s of the tests can't be read: %v", file, err)
				return g
			}
			g.name, target = base(file), pointer
		}
		target = strings.TrimPrefix(target, "#")
		if target == "" {
			target = "/pipeline/processors"
		}
		g.steps, g.why = targetOf(g.root, target)
		if g.why != "" {
			return g
		}
		if g.root != root || !slices.Equal(g.steps, pipeline) {
			g.name = strings.Trim(strings.NewReplacer("/", "_", "pipeline_processors", "step", " ", "_").Replace(
				strings.TrimPrefix(strings.ReplaceAll(target, "/pipeline/processors", "/step"), "/")), "_")
			if g.root != root && g.name == "step" {
				g.name = base(t.file)
			}
		}
	}
	if t.plainMocks(test) {
		return g
	}
	for _, p := range pairsOf(lookup(test, "mocks")) {
		steps, ok := replace(g.root, g.steps, p.key.Value, p.value)
		if !ok {
			g.why = fmt.Sprintf("the mock of %s finds no processor", p.key.Value)
			return g
		}
		g.steps = steps
	}
	if g.name == "" {
		g.name = "mocked"
	}
	return g
}

// mappingFrom returns a processor that runs a mapping file, the same one for the same file.
func (t *translator) mappingFrom(file string, at *yaml.Node) *yaml.Node {
	if t.mappings == nil {
		t.mappings = map[string]*yaml.Node{}
	}
	if t.mappings[file] == nil {
		n := mapping("mapping", "from "+strconv.Quote(file))
		n.Line, n.Column = at.Line, at.Column
		for _, c := range n.Content {
			c.Line, c.Column = at.Line, at.Column
		}
		t.mappings[file] = n
	}
	return t.mappings[file]
}

// targetOf returns the processors that a test names by pointer or label.
func targetOf(root *yaml.Node, target string) ([]*yaml.Node, string) {
	if !strings.HasPrefix(target, "/") {
		for _, item := range items(lookup(root, "processor_resources")) {
			if text(item, "label") == target {
				return []*yaml.Node{item}, ""
			}
		}
		return nil, fmt.Sprintf("there is no processor with the label %s", target)
	}
	n := root
	for part := range strings.SplitSeq(strings.TrimPrefix(target, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if i, err := strconv.Atoi(part); err == nil && n.Kind == yaml.SequenceNode {
			if i < 0 || i >= len(n.Content) {
				return nil, fmt.Sprintf("there is nothing at %s", target)
			}
			n = n.Content[i]
			continue
		}
		if n = lookup(n, part); n == nil {
			return nil, fmt.Sprintf("there is nothing at %s", target)
		}
	}
	return items(n), ""
}

// plainMocks reports whether all mocks of a test can be mocks of the pipeline.
func (t *translator) plainMocks(test *yaml.Node) bool {
	for _, p := range pairsOf(lookup(test, "mocks")) {
		if _, ok := t.mock(p); !ok {
			return false
		}
	}
	return true
}

var assigned = pattern(`(?s)^\s*root\s*=\s*(.*?)\s*$`)

// mock translates a fixed answer.
func (t *translator) mock(p pair) (*yaml.Node, bool) {
	if strings.HasPrefix(p.key.Value, "/") {
		return nil, false
	}
	c, why := t.open("processor", p.value)
	if why != "" || c.key.Value != "mapping" && c.key.Value != "bloblang" {
		return nil, false
	}
	m := assigned().FindStringSubmatch(c.config.Value)
	if m == nil {
		return nil, false
	}
	if n, ok := jsonNode(m[1]); ok {
		return mapping("json", n), true
	}
	if s, err := strconv.Unquote(m[1]); err == nil && utf8.ValidString(s) {
		return mapping("text", s), true
	}
	return nil, false
}

// replace replaces a processor, wherever it is, by a mock, or appends the mock to the list.
func replace(root *yaml.Node, steps []*yaml.Node, where string, mock *yaml.Node) ([]*yaml.Node, bool) {
	steps = slices.Clone(steps)
	if rest, ok := strings.CutPrefix(where, "/pipeline/processors/"); ok {
		if rest == "-" {
			return append(steps, mock), true
		}
		if i, err := strconv.Atoi(rest); err == nil && i >= 0 && i < len(steps) {
			steps[i] = mock
			return steps, true
		}
		return nil, false
	}
	found := false
	var walk func(n *yaml.Node) *yaml.Node
	walk = func(n *yaml.Node) *yaml.Node {
		if text(n, "label") == where {
			found = true
			return mock
		}
		if text(n, "resource") == where {
			found = true
			return mock
		}
		c := *n
		c.Content = nil
		for _, inner := range n.Content {
			c.Content = append(c.Content, walk(inner))
		}
		return &c
	}
	for i := range steps {
		steps[i] = walk(steps[i])
	}
	return steps, found
}
