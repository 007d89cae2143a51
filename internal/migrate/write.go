package migrate

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// scalar returns text, in quotes if YAML would not read it as text.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.Contains(strings.TrimRight(s, "\n"), "\n") && !strings.HasPrefix(s, " ") {
		n.Style = yaml.LiteralStyle
	}
	return n
}

// code returns an expression or number, unquoted.
func code(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s}
	if strings.Contains(s, "\n") || utf8.RuneCountInString(s) > flowWidth && !strings.HasPrefix(s, " ") {
		n.Style = yaml.LiteralStyle
	} else if n.ShortTag() == "!!null" || strings.HasPrefix(s, "<<") || n.ShortTag() == "!!merge" {
		n.Tag, n.Value = "!!str", s
	}
	return n
}

func list(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// mapping makes a mapping of keys and values: text, numbers or nodes. nil leaves a key out.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(pairs); i += 2 {
		switch v := pairs[i+1].(type) {
		case *yaml.Node:
			if v != nil {
				put(n, pairs[i].(string), v)
			}
		case string:
			put(n, pairs[i].(string), scalar(v))
		default:
			put(n, pairs[i].(string), code(fmt.Sprint(v)))
		}
	}
	return n
}

// put sets a key of a mapping.
func put(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, scalar(key), value)
}

// putAt sets a value at a path of keys, joined by dots.
func putAt(n *yaml.Node, path string, value *yaml.Node) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		put(n, name, value)
		return
	}
	in := lookup(n, name)
	if in == nil || in.Kind != yaml.MappingNode {
		in = mapping()
		put(n, name, in)
	}
	putAt(in, rest, value)
}

// short returns a mapping of one key.
func short(key string, value any) *yaml.Node { return mapping(key, value) }

// comment adds a line of comment above a node.
func comment(n *yaml.Node, text string) {
	if n != nil && text != "" {
		n.HeadComment = join(n.HeadComment, commented(text))
	}
}

// commented formats a text as comment lines of about 100 columns at most.
func commented(text string) string {
	const width = 100
	var lines []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		for utf8.RuneCountInString(line) > width {
			at := strings.LastIndex(line[:min(len(line), width)], " ")
			if at <= len(line)-len(strings.TrimLeft(line, " ")) {
				break
			}
			lines = append(lines, "# "+line[:at])
			line = line[at+1:]
		}
		lines = append(lines, strings.TrimRight("# "+line, " "))
	}
	return strings.Join(lines, "\n")
}

// quoted returns a part of a configuration as comments.
func quoted(n *yaml.Node, env hidden) string {
	shown := plainComments(n)
	restore(shown, env)
	text, err := encode(shown)
	if err != nil {
		return ""
	}
	var lines []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		lines = append(lines, strings.TrimRight("# "+line, " "))
	}
	return strings.Join(lines, "\n")
}

// restore writes the placeholders of a tree as in the source file.
func restore(n *yaml.Node, env hidden) {
	n.Value, n.HeadComment = env.original(n.Value), env.original(n.HeadComment)
	n.LineComment, n.FootComment = env.original(n.LineComment), env.original(n.FootComment)
	for _, c := range n.Content {
		restore(c, env)
	}
}

func encode(n *yaml.Node) (text string, err error) {
	defer func() {
		if r := recover(); r != nil { // the emitter panics on trees that it can't write
			err = fmt.Errorf("write YAML: %v", r)
		}
	}()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return "", err
	}
	return b.String(), e.Close()
}

// Short and simple mappings and lists are written on one line.
const (
	flowWidth = 72
	flowItems = 4
)

// layout chooses one or several lines for every part of a tree, and returns its width on one line, or -1. messages
// says that the tree has messages of tests, which may be on one line each. Steps and components have a line per key.
func layout(n *yaml.Node, messages bool) int {
	alone := n.HeadComment == "" && n.LineComment == "" && n.FootComment == ""
	if n.Kind == yaml.ScalarNode {
		if !alone || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			return -1
		}
		return utf8.RuneCountInString(n.Value) + 2
	}
	width, flat := 2, true
	for _, c := range n.Content {
		w := layout(c, messages)
		if w < 0 {
			flat = false
		}
		width += w + 2
	}
	count := len(n.Content)
	if n.Kind == yaml.MappingNode {
		count /= 2
	}
	n.Style &^= yaml.FlowStyle
	if count > 0 && (!flat || !alone || width > flowWidth || count > flowItems) {
		for _, c := range n.Content {
			item := n.Kind == yaml.SequenceNode && c.Kind == yaml.MappingNode && len(c.Content) > 0
			if item && (!messages || len(c.Content) == 2) {
				c.Style &^= yaml.FlowStyle
			}
		}
		return -1
	}
	n.Style |= yaml.FlowStyle
	if !alone {
		return -1
	}
	return width
}

// lift moves comments from values to their keys, since they are written above both.
func lift(n *yaml.Node) {
	for _, p := range pairsOf(n) {
		p.key.HeadComment, p.value.HeadComment = join(p.key.HeadComment, p.value.HeadComment), ""
	}
	for _, c := range n.Content {
		lift(c)
	}
}

// section is a top-level key with its value.
type section struct {
	name  string
	value *yaml.Node
	head  string // comments above it
}

// write writes sections, separated by blank lines. Steps and components are never on one line with their list.
func write(head string, sections []section, env hidden) ([]byte, error) {
	var b strings.Builder
	if head != "" {
		b.WriteString(head + "\n\n")
	}
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\n")
		}
		lift(s.value)
		s.head, s.value.HeadComment = join(s.head, s.value.HeadComment), ""
		layout(s.value, s.name == "tests")
		if len(s.value.Content) > 0 {
			s.value.Style &^= yaml.FlowStyle
		}
		if s.value.Kind == yaml.SequenceNode {
			for _, item := range s.value.Content {
				item.Style &^= yaml.FlowStyle
			}
		}
		key := scalar(s.name)
		key.HeadComment = s.head
		text, err := encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, s.value}})
		if err != nil {
			return nil, fmt.Errorf("write section %s: %w", s.name, err)
		}
		b.WriteString(text)
	}
	return []byte(b.String()), nil
}

// reveal restores the placeholders in all texts of a tree.
func reveal(n *yaml.Node, env hidden) {
	if n.Kind == yaml.ScalarNode {
		n.Value = env.show(n.Value)
	}
	n.HeadComment, n.LineComment, n.FootComment =
		env.original(n.HeadComment), env.original(n.LineComment), env.original(n.FootComment)
	for _, c := range n.Content {
		reveal(c, env)
	}
}
