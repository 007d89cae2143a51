package config

import (
	"regexp"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// The plain scalars that YAML's core schema takes for more than text, and the
// dates that YAML 1.1 knew: people still expect those to be special.
var (
	intText   = regexp.MustCompile(`^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	floatText = regexp.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	dateText  = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?$`)
)

// kindOf is the kind of a scalar, and the tag that says more than the kind:
// an explicit one, or !!timestamp for a plain date.
func kindOf(n *yaml.Node) (kind schema.NodeKind, tag string) {
	if n.Style&yaml.TaggedStyle != 0 {
		return taggedKind(n.Tag), n.Tag
	}
	if styleOf(n) != schema.Plain {
		return schema.TextNode, ""
	}
	kind = plainKind(n.Value)
	if kind == schema.TextNode && dateText.MatchString(n.Value) {
		tag = "!!timestamp"
	}
	return kind, tag
}

func plainKind(text string) schema.NodeKind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return schema.NullNode
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return schema.BoolNode
	}
	switch {
	case intText.MatchString(text):
		return schema.IntNode
	case floatText.MatchString(text):
		return schema.FloatNode
	}
	return schema.TextNode
}

func taggedKind(tag string) schema.NodeKind {
	switch tag {
	case "!!null":
		return schema.NullNode
	case "!!bool":
		return schema.BoolNode
	case "!!int":
		return schema.IntNode
	case "!!float":
		return schema.FloatNode
	}
	return schema.TextNode
}
