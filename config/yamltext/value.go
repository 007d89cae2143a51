package yamltext

import (
	"iter"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Value is a value of an edited file, with its comments, or one to be written into it. The zero Value is no
// value.
type Value struct {
	n    *yaml.Node
	flow bool // inside braces or brackets
}

// Text returns a text, in quotes if it needs them.
func Text(s string) Value { return Value{n: textNode(s)} }

// Plain returns a number, true, false or null.
func Plain(s string) Value { return Value{n: &yaml.Node{Kind: yaml.ScalarNode, Value: s}} }

// List returns a list of values.
func List(items ...Value) Value { return made(yaml.SequenceNode, items) }

// Mapping returns a mapping; pairs alternate keys and values.
func Mapping(pairs ...Value) Value { return made(yaml.MappingNode, pairs) }

func made(kind yaml.Kind, content []Value) Value {
	v := Value{n: &yaml.Node{Kind: kind}}
	v.Append(content...)
	return v
}

func textNode(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}

// Append adds items to a list, or keys and values to a mapping.
func (v Value) Append(content ...Value) {
	for _, item := range content {
		v.n.Content = append(v.n.Content, item.n)
	}
}

// CommentsOf puts the comments around another value around v.
func (v Value) CommentsOf(other Value) {
	if other.n != nil {
		v.n.HeadComment, v.n.FootComment = other.n.HeadComment, other.n.FootComment
	}
}

// OneLine returns a value on one line, without comments.
func (v Value) OneLine() Value { return Value{n: oneLine(v.n)} }

func oneLine(n *yaml.Node) *yaml.Node {
	c := *n
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	if c.Kind == yaml.ScalarNode {
		c.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
	} else {
		c.Style |= yaml.FlowStyle
	}
	c.Content = nil
	for _, item := range n.Content {
		c.Content = append(c.Content, oneLine(item))
	}
	return &c
}

// Exists reports whether v is a value.
func (v Value) Exists() bool { return v.n != nil }

// Text returns the text of a scalar.
func (v Value) Text() string { return v.n.Value }

// Get returns the value of a key of a mapping.
func (v Value) Get(key string) Value {
	for k, item := range v.Pairs() {
		if k.n.Value == key {
			return item
		}
	}
	return Value{}
}

// Item returns an item of a list, counted from 0.
func (v Value) Item(i int) Value {
	if v.n == nil || v.n.Kind != yaml.SequenceNode || i >= len(v.n.Content) {
		return Value{}
	}
	return v.below(v.n.Content[i])
}

// Pairs returns the keys and values of a mapping. Other values have none.
func (v Value) Pairs() iter.Seq2[Value, Value] {
	return func(yield func(key, value Value) bool) {
		if v.n == nil || v.n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(v.n.Content); i += 2 {
			if !yield(v.below(v.n.Content[i]), v.below(v.n.Content[i+1])) {
				return
			}
		}
	}
}

func (v Value) below(n *yaml.Node) Value {
	return Value{n: n, flow: v.flow || v.n.Style&yaml.FlowStyle != 0}
}

// anchored reports whether n is shared with another place.
func anchored(n *yaml.Node) bool {
	return n != nil && (n.Anchor != "" || n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, anchored))
}

// Items returns the items of a list. Other values have none.
func (v Value) Items() (all []Value) {
	for i := 0; v.Item(i).Exists(); i++ {
		all = append(all, v.Item(i))
	}
	return all
}

// IsMapping reports whether v is a mapping with keys.
func (v Value) IsMapping() bool {
	return v.n != nil && v.n.Kind == yaml.MappingNode && len(v.n.Content) > 0
}

// Lines returns a mapping or list with each of its entries on lines of its own. What is below them keeps its style.
func (v Value) Lines() Value {
	c := *v.n
	c.Style &^= yaml.FlowStyle
	return Value{n: &c}
}

// Commented returns v with a comment above it.
func (v Value) Commented(text string) Value {
	c := *v.n
	if c.HeadComment = text; text != "" {
		c.HeadComment = "# " + strings.ReplaceAll(text, "\n", "\n# ")
	}
	return Value{n: &c}
}

// Render returns a value as the text of a file.
func Render(v Value) (string, error) {
	text, err := render(v.n)
	return text + "\n", err
}
