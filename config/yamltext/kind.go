package yamltext

import (
	"errors"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// dateText matches YAML 1.1 dates, which people still expect to be special.
var dateText = onFirstUse(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?$`)

// kindOf returns the kind of a scalar, and a tag that says more than the kind: an explicit tag, or !!timestamp for a
// plain date.
func kindOf(n *yaml.Node) (kind schema.NodeKind, tag string) {
	if n.Style&yaml.TaggedStyle != 0 {
		return taggedKind(n.Tag), n.Tag
	}
	if styleOf(n) != schema.Plain {
		return schema.TextNode, ""
	}
	kind = plainKind(n.Value)
	if kind == schema.TextNode && len(n.Value) > 4 && n.Value[4] == '-' && dateText().MatchString(n.Value) {
		tag = "!!timestamp"
	}
	return kind, tag
}

// plainKind returns the kind that YAML's core schema gives a plain scalar.
func plainKind(text string) schema.NodeKind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return schema.NullNode
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return schema.BoolNode
	}
	switch {
	case isInt(text):
		return schema.IntNode
	case isFloat(text):
		return schema.FloatNode
	}
	return schema.TextNode
}

func isInt(text string) bool {
	digits := "0123456789"
	switch {
	case strings.HasPrefix(text, "0o"):
		text, digits = text[2:], "01234567"
	case strings.HasPrefix(text, "0x"):
		text, digits = text[2:], "0123456789abcdefABCDEF"
	case text != "" && (text[0] == '-' || text[0] == '+'):
		text = text[1:]
	}
	return text != "" && strings.TrimLeft(text, digits) == ""
}

func isFloat(text string) bool {
	switch text {
	case ".nan", ".NaN", ".NAN":
		return true
	}
	if text != "" && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	switch text {
	case ".inf", ".Inf", ".INF":
		return true
	case "":
		return false
	}
	// ParseFloat also accepts 0x1p-2 and Inf. It accepts no second sign.
	_, err := strconv.ParseFloat(text, 64)
	return !errors.Is(err, strconv.ErrSyntax) && strings.TrimLeft(text[:1], "0123456789.") == "" &&
		strings.TrimLeft(text, "0123456789.eE+-") == ""
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
