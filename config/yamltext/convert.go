package yamltext

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// Limits of what a file may expand to. A pipeline of a thousand components is far below them.
const (
	maxDepth = 200
	maxNodes = 100_000
	maxMarks = 4 * maxNodes // see codec.Crowded; text inside values has some, too
	maxText  = MaxFile      // bytes of all values, aliases written out
)

var (
	tooDeep = schema.Problem{Code: "yaml-too-deep", Message: fmt.Sprintf("nested more than %d levels deep", maxDepth),
		Remedy: "no pipeline needs that: look for a wrong bracket or indent above"}
	tooLarge = schema.Problem{Code: "yaml-too-large", Message: fmt.Sprintf("more than %d values in one file", maxNodes),
		Remedy: "split it into several pipelines"}
)

// converter turns the parser's tree into schema nodes, expands aliases and merge keys, and collects problems.
type converter struct {
	src      *cursor
	path     string // of the current node, such as "inputs.orders"
	nodes    int
	text     int                 // bytes of the values so far
	aliased  bool                // some alias was expanded
	open     map[*yaml.Node]bool // values with an anchor whose conversion has begun
	problems []schema.Problem
	full     bool // a limit was exceeded; nothing more is converted
}

// convert converts a document's content. It returns nil if that exceeds a limit, since an incomplete tree would look
// like missing values.
func convert(src *Source, n *yaml.Node) (*schema.Node, []schema.Problem) {
	c := converter{src: &cursor{Source: src}, open: map[*yaml.Node]bool{}}
	root := c.node(n, 0)
	if c.full {
		root = nil
	}
	return root, c.problems
}

// node converts n and everything below it.
func (c *converter) node(n *yaml.Node, depth int) *schema.Node {
	off := c.src.offset(n.Line, n.Column)
	out := &schema.Node{Pos: c.src.Pos(off), Excerpt: c.src.Excerpt}
	if !c.room(off, depth) {
		return out
	}
	if n.Anchor != "" {
		c.open[n] = true
		defer delete(c.open, n)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.alias(n, off, depth)
	case yaml.SequenceNode:
		out.Kind, out.Tag = schema.ListNode, c.tag(n, off)
		for i, item := range n.Content {
			c.at(c.path+"["+strconv.Itoa(i)+"]", func() { out.Items = append(out.Items, c.node(item, depth+1)) })
		}
	case yaml.MappingNode:
		out.Kind, out.Tag = schema.MapNode, c.tag(n, off)
		c.mapping(out, n, depth)
	default:
		s := newScalar(c.src.Source, n, off)
		c.scalar(out, n, s)
		out.Tail = s.tail()
	}
	return out
}

func (c *converter) scalar(out *schema.Node, n *yaml.Node, s scalar) {
	c.text += len(n.Value)
	out.Kind, out.Tag = kindOf(n)
	if at := c.src.offset(n.Line, n.Column); out.Tag == "" && strings.HasPrefix(c.src.text[at:], "! ") {
		out.Tag = "!" // the parser drops it
	}
	out.Text, out.Style = n.Value, s.style
	out.Offset = func(i int) schema.Pos { return s.src.Pos(s.offset(i)) }
}

// room reports whether one more node fits. If not, it reports a problem once.
func (c *converter) room(off, depth int) bool {
	c.nodes++
	const share = "write the values out, or share steps by `resources.steps`"
	switch {
	case c.full:
		return false
	case depth > maxDepth:
		c.path = "" // too long to help
		c.report(off, tooDeep)
	case c.nodes > maxNodes && c.aliased:
		c.report(off, schema.Problem{Code: "yaml-alias-bomb",
			Message: fmt.Sprintf("aliases expand to more than %d values", maxNodes), Remedy: share})
	case c.text > maxText:
		c.report(off, schema.Problem{Code: "yaml-alias-bomb",
			Message: fmt.Sprintf("aliases expand to more than %d MiB", maxText>>20), Remedy: share})
	case c.nodes > maxNodes:
		c.report(off, tooLarge)
	default:
		return true
	}
	c.full = true
	return false
}

// tag rejects tags on lists and mappings, where they have no meaning.
func (c *converter) tag(n *yaml.Node, off int) string {
	if n.Style&yaml.TaggedStyle == 0 || n.Tag == "!!map" || n.Tag == "!!seq" {
		return ""
	}
	c.report(off, schema.Problem{Code: "yaml-tag", Message: fmt.Sprintf("the tag %s has no meaning here", n.Tag),
		Remedy: "remove it"})
	return n.Tag
}

func (c *converter) alias(n *yaml.Node, off, depth int) *schema.Node {
	c.aliased = true
	if c.open[n.Alias] {
		c.report(off, schema.Problem{Code: "yaml-alias-cycle",
			Message: fmt.Sprintf("*%s is inside the value that it repeats", n.Value), Remedy: "write the value out"})
		return &schema.Node{Pos: c.src.Pos(off), Excerpt: c.src.Excerpt}
	}
	return c.node(n.Alias, depth)
}

// in runs f for the value of a key.
func (c *converter) in(key string, f func()) { c.at(schema.Join(c.path, key), f) }

// at runs f for the value at a path.
func (c *converter) at(path string, f func()) {
	outer := c.path
	c.path = path
	f()
	c.path = outer
}

func (c *converter) report(off int, p schema.Problem) {
	p.Pos, p.Path = c.src.Pos(off), c.path
	p.Excerpt, p.Caret = c.src.Excerpt(p.Pos), p.Pos
	c.problems = append(c.problems, p)
}
