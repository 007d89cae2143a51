package config

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// pairOf is a key of a mapping and its value, or nil.
func pairOf(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

func valueOf(n *yaml.Node, key string) *yaml.Node {
	_, v := pairOf(n, key)
	return v
}

// anchored says whether something is shared with another place.
func anchored(n *yaml.Node) bool {
	return n != nil && (n.Anchor != "" || n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, anchored))
}

// render is a node as text, without a line break at its end.
func render(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return "", err
	}
	if err := e.Close(); err != nil {
		return "", err
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// oneLine is a node on one line, without comments.
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

func textNode(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}

func numberNode(n int64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(n, 10)}
}

// mapNode makes a mapping on one line; pairs alternate keys and values.
func mapNode(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: pairs}
}

// newExpect is `expect` with the outputs replaced that differ.
func newExpect(old *yaml.Node, came map[string][]Batch) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	if old != nil && old.Kind == yaml.MappingNode {
		n.HeadComment, n.FootComment = old.HeadComment, old.FootComment
		for i := 0; i+1 < len(old.Content); i += 2 {
			name := old.Content[i].Value
			writes, differs := came[name]
			switch {
			case !differs:
				n.Content = append(n.Content, old.Content[i], old.Content[i+1])
			case len(writes) > 0:
				v, err := outputNode(old.Content[i+1], writes)
				if err != nil {
					return nil, err
				}
				n.Content = append(n.Content, old.Content[i], v)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(came)) {
		if valueOf(old, name) != nil || len(came[name]) == 0 {
			continue
		}
		v, err := outputNode(nil, came[name])
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, textNode(name), v)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n, nil
}

// outputNode is what arrived at one output, in the form of what was expected there.
func outputNode(old *yaml.Node, writes []Batch) (*yaml.Node, error) {
	inBatches := valueOf(old, "batches") != nil
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, w := range writes {
		messages := list
		if inBatches {
			messages = &yaml.Node{Kind: yaml.SequenceNode}
		}
		for _, came := range w.Messages {
			m, err := messageNode(came.Body)
			if err != nil {
				return nil, err
			}
			if came.Err != nil {
				m.Content = append(m.Content, textNode("error"), mapNode(reasonPairs(*came.Err)...))
			}
			messages.Content = append(messages.Content, m)
		}
		if !inBatches {
			continue
		}
		batch := &yaml.Node{Kind: yaml.MappingNode}
		if w.Trigger != "" {
			batch.Content = append(batch.Content, textNode("trigger"), textNode(w.Trigger))
		}
		if w.Key != "" {
			key, err := jsonNode([]byte(w.Key))
			if err != nil {
				return nil, err
			}
			batch.Content = append(batch.Content, textNode("key"), key)
		}
		batch.Content = append(batch.Content, textNode("messages"), messages)
		list.Content = append(list.Content, batch)
	}
	anyOrder := valueOf(old, "any_order")
	if !inBatches && anyOrder == nil {
		return list, nil
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	if anyOrder != nil {
		n.Content = append(n.Content, textNode("any_order"), anyOrder)
	}
	name := "messages"
	if inBatches {
		name = "batches"
	}
	n.Content = append(n.Content, textNode(name), list)
	return n, nil
}

// messageNode is a payload: objects and lists as such, anything else as text.
func messageNode(body []byte) (*yaml.Node, error) {
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		if n, err := jsonNode([]byte(text)); err == nil {
			return mapNode(textNode("json"), n), nil
		}
	}
	if !utf8.Valid(body) || strings.ContainsFunc(string(body), forbidden) {
		return mapNode(textNode("base64"), textNode(base64.StdEncoding.EncodeToString(body))), nil
	}
	return mapNode(textNode("text"), literal(string(body))), nil
}

// literal is a text in which nothing is a placeholder.
func literal(s string) *yaml.Node { return textNode(strings.ReplaceAll(s, "${", "$${")) }

// jsonNode is a JSON text in YAML.
func jsonNode(text []byte) (*yaml.Node, error) {
	n, err := schema.ParseJSON(string(text))
	if err != nil {
		return nil, err
	}
	return yamlOf(n), nil
}

func yamlOf(n *schema.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.ScalarNode, Value: n.Text, Style: yaml.FlowStyle}
	switch n.Kind {
	case schema.MapNode:
		out.Kind = yaml.MappingNode
	case schema.ListNode:
		out.Kind = yaml.SequenceNode
	case schema.TextNode:
		return literal(n.Text)
	default:
		out.Style = 0 // numbers, true, false and null are spelled alike in YAML
	}
	for i, item := range n.Items {
		if n.Kind == schema.MapNode {
			out.Content = append(out.Content, textNode(n.Keys[i].Text))
		}
		out.Content = append(out.Content, yamlOf(item))
	}
	return out
}

func fatesNode(f Fates) *yaml.Node {
	n := mapNode()
	for _, e := range []struct {
		name string
		n    int64
	}{{"delivered", f.Delivered}, {"filtered", f.Filtered}, {"dead_lettered", f.DeadLettered}, {"dropped", f.Dropped}, {"returned", f.Returned}} {
		if e.n > 0 {
			n.Content = append(n.Content, textNode(e.name), numberNode(e.n))
		}
	}
	return n
}

// reasonPairs are the keys and values of why something failed.
func reasonPairs(e ExpectedError) (pairs []*yaml.Node) {
	for _, pair := range [][2]string{{"class", e.Class}, {"place", e.Place}, {"message", e.Message}} {
		if pair[1] != "" {
			pairs = append(pairs, textNode(pair[0]), literal(pair[1]))
		}
	}
	return pairs
}

func failuresNode(failures []ExpectedFailure) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, f := range failures {
		n := mapNode(reasonPairs(f.ExpectedError)...)
		if f.Fate != "" {
			n.Content = append(n.Content, textNode("fate"), literal(f.Fate))
		}
		if f.Count > 1 {
			n.Content = append(n.Content, textNode("count"), numberNode(f.Count))
		}
		list.Content = append(list.Content, n)
	}
	return list
}
