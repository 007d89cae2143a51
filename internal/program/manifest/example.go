package manifest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

// checkExample lints an example: each component of the new type in it.
func (m *manifest) checkExample(at schema.Place) (problems []schema.Problem) {
	n := at.Node
	if n.Kind != schema.TextNode {
		return []schema.Problem{at.Problem(schema.Problem{Code: schema.WrongKind, Message: "expected text, got " + n.Kind.String(),
			Remedy: "write the example as text: begin it with `- |` on a line of its own"})}
	}
	// The places in the example become places in the manifest.
	place := func(p schema.Pos) schema.Pos { return n.At(offset(n.Text, p)) }
	report := func(found ...schema.Problem) {
		for _, p := range found {
			p.Pos, p.Path = place(p.Pos), at.Path
			p.Message = "the example is not valid: " + p.Message
			p.Excerpt, p.Caret = "", schema.Pos{}
			if n.Excerpt != nil {
				p.Excerpt, p.Caret = n.Excerpt(p.Pos), p.Pos
			}
			problems = append(problems, p)
		}
	}
	root, found := yamltext.Parse("", []byte(n.Text))
	report(found...)
	if root == nil {
		return problems
	}
	uses := m.uses(root)
	if len(uses) == 0 {
		return []schema.Problem{at.Problem(schema.Problem{Code: schema.BadValue, Message: "the example does not use " + m.Name,
			Remedy: fmt.Sprintf("show a component {%s: …}", m.Name)})}
	}
	for _, use := range uses {
		d := offline()
		d.Decode(use, reflect.New(reflect.TypeOf(m.kind.spec)).Interface())
		report(resolvable(d.Problems())...)
	}
	return problems
}

// uses returns the mappings with a key that is the name of the type.
func (m *manifest) uses(n *schema.Node) (all []*schema.Node) {
	if n.Kind == schema.MapNode && n.Lookup(m.Name) != nil {
		return []*schema.Node{n}
	}
	for _, item := range n.Items {
		all = append(all, m.uses(item)...)
	}
	return all
}

// offset returns the offset of a place in a text.
func offset(text string, p schema.Pos) int {
	at, line := 0, 1
	for l := range strings.Lines(text) {
		if line == p.Line {
			for i := range l {
				if p.Col--; p.Col < 1 {
					return at + i
				}
			}
			return at + len(l)
		}
		at, line = at+len(l), line+1
	}
	return len(text)
}
