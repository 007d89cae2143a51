package bloblang

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Flow is [Steps] for a reader: each step is the text of an item in a list of steps, on one line and without comments. ok is false
// if some of the mapping has no counterpart.
func Flow(src string) (steps []string, ok bool) {
	nodes, notes := Steps(src, Options{})
	if !complete(notes) {
		return nil, false
	}
	for _, n := range nodes {
		var b strings.Builder
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			oneLine(value)
			text, err := yaml.Marshal(value)
			if err != nil {
				return nil, false
			}
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(key.Value + ": " + strings.TrimSpace(string(text)))
		}
		step := b.String()
		if len(n.Content) > 2 {
			step = "{" + step + "}"
		}
		steps = append(steps, step)
	}
	return steps, true
}

// Counterpart is [Query] for a reader. ok is false if some of the query has no counterpart.
func Counterpart(src string) (code string, ok bool) {
	code, notes := Query(src, Options{})
	return code, complete(notes)
}

// Interpolated is [Template] for a reader. ok is false if some of the text has no counterpart.
func Interpolated(src string) (template string, ok bool) {
	template, notes := Template(src, Options{Unescaped: true})
	return strings.ReplaceAll(template, string(Dollar), "$"), complete(notes)
}

// complete reports whether everything was translated.
func complete(notes []Note) bool {
	for _, n := range notes {
		if n.Kind == Untranslated {
			return false
		}
	}
	return true
}

// oneLine writes a node, and those in it, on one line.
func oneLine(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		n.Style = yaml.FlowStyle
	case yaml.ScalarNode:
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // code that was broken into lines
			var b strings.Builder
			for line := range strings.Lines(n.Value) {
				b.WriteString(strings.TrimSpace(line) + " ")
			}
			n.Style, n.Value = 0, strings.TrimSpace(b.String())
		}
	}
	for _, c := range n.Content {
		oneLine(c)
	}
}
