package yamltext

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// mapping converts the pairs of n into out. Explicit keys take precedence over those of a merge key, and earlier
// merged mappings over later ones.
func (c *converter) mapping(out *schema.Node, n *yaml.Node, depth int) {
	seen := map[string]*schema.Node{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := c.key(k)
		if key == nil {
			continue
		}
		if first := seen[key.Text]; first != nil {
			c.duplicate(key, first, c.src.offset(k.Line, k.Column))
			continue
		}
		seen[key.Text] = key
		if k.Tag == "!!merge" {
			merges = append(merges, v)
			continue
		}
		if c.swallowed(out, n, k, v) {
			continue
		}
		c.in(key.Text, func() {
			out.Keys = append(out.Keys, key)
			out.Items = append(out.Items, c.node(v, depth+1))
		})
	}
	for _, m := range merges {
		c.merge(out, seen, m, depth)
	}
}

// Mustache is the problem of {{ name }} without quotes.
const Mustache = "{{ }} belongs to Jinja, Go and Vector, and YAML reads it as a mapping"

// key converts a key, or reports a problem and returns nil.
func (c *converter) key(k *yaml.Node) *schema.Node {
	off := c.src.offset(k.Line, k.Column)
	bad := func(message, remedy string) *schema.Node {
		c.report(off, schema.Problem{Code: "yaml-key", Message: message, Remedy: remedy})
		return nil
	}
	if k.Kind == yaml.AliasNode && k.Alias.Kind == yaml.ScalarNode {
		return bad(fmt.Sprintf("the alias *%s can't be a key", k.Value), "write the key out")
	}
	if k.Kind == yaml.MappingNode && len(k.Content) == 2 && k.Content[0].Kind == yaml.ScalarNode && k.Content[1].Tag == "!!null" {
		name := k.Content[0].Value
		return bad(Mustache, fmt.Sprintf(`write %s in an expression, "$(%[1]s)" in a template`, name))
	}
	if k.Kind != yaml.ScalarNode {
		return bad("a list or mapping can't be a key",
			"write a name; an expression or text that begins with { or [ goes into quotes")
	}
	if !c.room(off, 0) {
		return nil
	}
	key := &schema.Node{Pos: c.src.Pos(off), Excerpt: c.src.Excerpt}
	c.scalar(key, k, newScalar(c.src.Source, k, off))
	switch {
	case key.Tag != "" && key.Tag != "!!timestamp" && key.Tag != "!!str":
		return bad(fmt.Sprintf("a key can't have the tag %s", key.Tag), "remove it, or put the key into quotes")
	case key.Text == "" && key.Style == schema.Plain:
		return bad("a key is missing before the colon", "write a name")
	}
	return key
}

// duplicate reports a key that its mapping already contains.
func (c *converter) duplicate(key, first *schema.Node, off int) {
	c.in(key.Text, func() {
		c.report(off, schema.Problem{Code: schema.DuplicateKey,
			Message: fmt.Sprintf("key %q is given twice, first at %d:%d", key.Text, first.Pos.Line, first.Pos.Col),
			Remedy:  "remove one"})
	})
}

// swallowed finds a value in { } that YAML split at a comma: {when: f(a, b)} has the keys `when` and `b)`. It reports
// the problem and restores the value.
func (c *converter) swallowed(out *schema.Node, n, k, v *yaml.Node) bool {
	if n.Style&yaml.FlowStyle == 0 || v.Kind != yaml.ScalarNode || v.Value != "" || styleOf(v) != schema.Plain ||
		v.Style&yaml.TaggedStyle != 0 {
		return false
	}
	off, last := c.src.offset(v.Line, v.Column), len(out.Items)-1
	if strings.HasSuffix(strings.TrimRight(c.src.text[:off], " \t\r\n"), ":") || last < 0 ||
		out.Items[last].Kind == schema.ListNode || out.Items[last].Kind == schema.MapNode {
		return false
	}
	whole := out.Items[last]
	whole.Kind, whole.Text = schema.TextNode, whole.Text+", "+k.Value
	c.in(out.Keys[last].Text, func() {
		c.report(c.src.offset(k.Line, k.Column), schema.Problem{Code: "yaml-flow-text",
			Message: fmt.Sprintf("YAML reads %q as a separate key: a comma ends a value inside { }", k.Value),
			Remedy:  "put the whole value into quotes: " + inQuotes(whole.Text)})
	})
	return true
}

// merge adds the pairs of a merge key's value that out lacks.
func (c *converter) merge(out *schema.Node, seen map[string]*schema.Node, v *yaml.Node, depth int) {
	target := v
	if v.Kind == yaml.AliasNode {
		target = v.Alias
	}
	switch {
	case target.Kind == yaml.SequenceNode && v.Kind != yaml.AliasNode:
		for _, item := range v.Content {
			c.merge(out, seen, item, depth+1)
		}
	case target.Kind == yaml.MappingNode:
		from := c.node(v, depth)
		for i, key := range from.Keys {
			if seen[key.Text] == nil {
				seen[key.Text] = key
				out.Keys = append(out.Keys, key)
				out.Items = append(out.Items, from.Items[i])
			}
		}
	default:
		c.report(c.src.offset(v.Line, v.Column), schema.Problem{Code: "yaml-merge",
			Message: "<< takes a mapping, or a list of mappings",
			Remedy:  "write `<<: *name`, where &name marks a mapping"})
	}
}
