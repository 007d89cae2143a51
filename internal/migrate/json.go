package migrate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

var identifier = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are words that are fields only after `this.`. lint warns of yes, no, on and off.
var reserved = []string{"and", "contains", "else", "endsWith", "if", "in", "let", "matches", "not", "or", "startsWith",
	"nil",
	"true", "false", "this", "yes", "no", "on", "off"}

// contains adds the conditions that a document contains another one.
func contains(conditions []string, path string, n *yaml.Node) []string {
	if n.Kind != yaml.MappingNode {
		return append(conditions, path+" == "+literal(n))
	}
	for _, p := range pairsOf(n) {
		at := path + "[" + quote(p.key.Value) + "]"
		if identifier().MatchString(p.key.Value) {
			at = path + "." + p.key.Value
			if path == "this" && !slices.Contains(reserved, p.key.Value) {
				at = p.key.Value
			}
		}
		conditions = contains(conditions, at, p.value)
	}
	return conditions
}

// literal returns a value of YAML as an expression.
func literal(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		var all []string
		for _, c := range n.Content {
			all = append(all, literal(c))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case yaml.MappingNode:
		var all []string
		for _, p := range pairsOf(n) {
			all = append(all, quote(p.key.Value)+": "+literal(p.value))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nil"
	case "!!bool":
		return strings.ToLower(n.Value)
	case "!!int", "!!float":
		return n.Value
	}
	return quote(n.Value)
}

// jsonNode returns a JSON object or array as YAML, with its order.
func jsonNode(content string) (*yaml.Node, bool) {
	trimmed := strings.TrimSpace(content)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") || !json.Valid([]byte(content)) ||
		!utf8.ValidString(content) {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(content))
	dec.UseNumber()
	n, err := nextNode(dec, 0)
	if err != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, false
	}
	return n, true
}

func nextNode(dec *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errTooLarge
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := list()
		if v == '{' {
			n = mapping()
		}
		seen := map[string]bool{}
		for dec.More() {
			if v == '{' {
				key, err := dec.Token()
				if err != nil {
					return nil, err
				}
				name, _ := key.(string)
				if seen[name] {
					return nil, fmt.Errorf("the key %q occurs twice", name)
				}
				seen[name] = true
				n.Content = append(n.Content, scalar(name))
			}
			item, err := nextNode(dec, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err := dec.Token()
		return n, err
	case string:
		return scalar(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}
