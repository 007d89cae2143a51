package manifest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// valueOf converts decoded settings to a node without placeholders, for the `config` of the component program. n has the
// settings as they were written; nil: they are defaults.
func valueOf(d *schema.Decoder, v reflect.Value, n *schema.Node) *schema.Node {
	c := converter{d: d}
	if n != nil {
		c.pos = n.Pos
	}
	return c.value(v, n)
}

type converter struct {
	d   *schema.Decoder
	pos schema.Pos // of values that were not written
}

func (c *converter) scalar(kind schema.NodeKind, text string, n *schema.Node) *schema.Node {
	s := &schema.Node{Kind: kind, Text: escaped(text), Style: schema.DoubleQuoted, Pos: c.pos}
	if n != nil {
		s.Pos, s.Excerpt = n.Pos, n.Excerpt
	}
	return s
}

// value returns nil for a setting that is not set.
func (c *converter) value(v reflect.Value, n *schema.Node) *schema.Node {
	switch x := v.Interface().(type) {
	case *schema.Node:
		if x == nil {
			return nil
		}
		return c.resolved(x)
	case schema.Secret:
		return c.scalar(schema.TextNode, x.Reveal(), n)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return c.value(v.Elem(), n)
	case reflect.Bool:
		return c.scalar(schema.BoolNode, strconv.FormatBool(v.Bool()), n)
	case reflect.Int64:
		return c.scalar(schema.IntNode, strconv.FormatInt(v.Int(), 10), n)
	case reflect.Float64:
		return c.scalar(schema.FloatNode, strconv.FormatFloat(v.Float(), 'g', -1, 64), n)
	case reflect.Slice:
		return c.list(v, n)
	case reflect.Map:
		return c.mapping(v, n)
	case reflect.Struct:
		return c.object(v, n)
	}
	return c.scalar(schema.TextNode, v.String(), n)
}

func (c *converter) empty(kind schema.NodeKind, n *schema.Node) *schema.Node {
	all := c.scalar(kind, "", n)
	all.Style = schema.Plain
	return all
}

func (c *converter) list(v reflect.Value, n *schema.Node) *schema.Node {
	if v.IsNil() {
		return nil
	}
	list := c.empty(schema.ListNode, n)
	for i := range v.Len() {
		var item *schema.Node
		if n != nil && n.Kind == schema.ListNode && i < len(n.Items) {
			item = n.Items[i]
		}
		list.Items = append(list.Items, c.value(v.Index(i), item))
	}
	return list
}

func (c *converter) mapping(v reflect.Value, n *schema.Node) *schema.Node {
	if v.IsNil() {
		return nil
	}
	m := c.empty(schema.MapNode, n)
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		c.add(m, key.String(), v.MapIndex(key), n.Find(key.String()))
	}
	return m
}

func (c *converter) object(v reflect.Value, n *schema.Node) *schema.Node {
	m := c.empty(schema.MapNode, n)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); f.Name != processField {
			c.add(m, name, v.Field(i), n.Find(name))
			if f.Tag.Get("secret") != "" {
				c.hide(m.Lookup(name))
			}
		}
	}
	return m
}

func (c *converter) add(m *schema.Node, name string, v reflect.Value, n *schema.Node) {
	item := c.value(v, n)
	if item == nil {
		return
	}
	m.Keys = append(m.Keys, &schema.Node{Kind: schema.TextNode, Text: name, Style: schema.DoubleQuoted, Pos: item.Pos})
	m.Items = append(m.Items, item)
}

// hide masks all texts of a value. Which of them is the secret is only known to the JSON Schema.
func (c *converter) hide(n *schema.Node) {
	if n == nil {
		return
	}
	if n.Kind == schema.TextNode {
		c.d.Secrets().Add(strings.ReplaceAll(n.Text, "$${", "${"))
	}
	for _, item := range n.Items {
		c.hide(item)
	}
}

// resolved copies a value of any kind, with its placeholders resolved. Their values are text.
func (c *converter) resolved(n *schema.Node) *schema.Node {
	r := *n
	if n.Kind == schema.ListNode || n.Kind == schema.MapNode || n.Kind == schema.NullNode {
		r.Items = slices.Clone(n.Items)
		for i, item := range r.Items {
			r.Items[i] = c.resolved(item)
		}
		return &r
	}
	text, _ := c.d.Text(n)
	r.Text, r.Offset = escaped(text), nil
	return &r
}

// escaped returns a text that has no placeholders.
func escaped(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// literal copies a value whose texts are meant as they are written.
func literal(n *schema.Node) *schema.Node {
	c := *n
	c.Text, c.Offset = escaped(n.Text), nil
	c.Items = slices.Clone(n.Items)
	for i, item := range c.Items {
		c.Items[i] = literal(item)
	}
	return &c
}
