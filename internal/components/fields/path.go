// Package fields contains config fields that name places in a document. Start at [Path] and [Lines].
package fields

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Path is a config field with a path: user.name, items[0], or this for the whole document. The zero Path is unset.
type Path struct{ doc.Path }

// IsZero reports whether the path is unset. The path this is not.
func (p Path) IsZero() bool { return p.String() == "" }

// UnmarshalConfig decodes a path.
func (p *Path) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if text, ok := d.Text(n); ok && text != "" {
		p.Path = parse(d, n, text)
	}
}

// DescribeConfig describes text.
func (p *Path) DescribeConfig() *schema.Type { return schema.AnyOf("path", "") }

// Wrap turns m, whose payload is not a document, into a document with a value at the path.
func (p Path) Wrap(m *engine.Message, value []byte) error {
	var d doc.Doc
	d.Reset([]byte("{}"), m.Doc().Arena())
	if err := d.SetRaw(p.Path, value); err != nil {
		return err
	}
	m.SetBytes(d.Bytes())
	return nil
}

// Paths is a config field with one or more paths to parts of the document.
type Paths []doc.Path

// UnmarshalConfig decodes a path or a list of paths.
func (p *Paths) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.MapNode {
		d.Report(n, schema.Problem{Code: schema.WrongKind, Message: "expected a path or list of paths, got a mapping",
			Remedy: "write [user.name, items]"})
		return
	}
	items := []*schema.Node{n}
	if n.Kind == schema.ListNode {
		items = n.Items
	}
	if len(items) == 0 {
		d.Report(n, schema.Problem{Code: schema.Required, Message: "needs at least one path",
			Remedy: "write [user.name, items]"})
	}
	*p = make(Paths, 0, len(items))
	for _, item := range items {
		if text, ok := d.Text(item); ok {
			*p = append(*p, inside(d, item, text))
		}
	}
}

// DescribeConfig describes text or a list of texts.
func (p *Paths) DescribeConfig() *schema.Type {
	return schema.AnyOf("path or list of paths", "", []string(nil))
}

// inside parses the path of a part of the document.
func inside(d *schema.Decoder, n *schema.Node, text string) doc.Path {
	p := parse(d, n, text)
	if p.IsZero() && p.String() != "" {
		d.Report(n, schema.Problem{Code: schema.BadValue,
			Message: fmt.Sprintf("%s is the whole document, but only a part of it is allowed here", text),
			Remedy:  "write a path such as user.name or items[0]; for a field of this name, this.this"})
	}
	return p
}

// parse reads a path.
func parse(d *schema.Decoder, n *schema.Node, text string) doc.Path {
	p, err := doc.ParsePath(text)
	switch {
	case text == "":
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "the path is empty",
			Remedy: "write a path such as user.name or items[0]"})
	case err != nil:
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%q is not a valid path", text),
			Remedy: meant(text)})
	}
	return p
}

// meant returns what an invalid path may have meant.
func meant(text string) string {
	if strings.HasPrefix(text, ",") { // {a, b}
		return "each key between { } needs a colon and a value"
	}
	if list := strings.Split(text, ","); len(list) > 1 && !slices.ContainsFunc(list, isNoPath) {
		return "write a list: [" + text + "]"
	}
	if name, value, ok := strings.Cut(text, "="); ok && !isNoPath(name) {
		return fmt.Sprintf("write `%s: %s`", strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if path := otherwise(text); !isNoPath(path) {
		return fmt.Sprintf("write '%s'", path)
	}
	if strings.ContainsAny(text, ".[]\"'") {
		return `write a path such as user.name, items[0] or user["odd name"]`
	}
	return fmt.Sprintf(`write '["%s"]' for a key of that name, or a path such as user.name`, text)
}

var (
	dottedIndex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.(\d+)(\.|\[|$)`) })
	bracketed   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([A-Za-z_]\w*)\]`) })
)

// otherwise is a path that is written as in other systems: a.0.b, .a.b, $.a.b or [a][b].
func otherwise(text string) string {
	for range 2 { // neighbours share a dot
		text = dottedIndex().ReplaceAllString(text, "[$1]$2")
	}
	text = bracketed().ReplaceAllString(text, ".$1")
	return strings.TrimPrefix(strings.TrimPrefix(text, "$"), ".")
}

func isNoPath(text string) bool {
	_, err := doc.ParsePath(strings.TrimSpace(text))
	return err != nil
}

// key returns the node of a mapping's key.
func key(n *schema.Node, text string) *schema.Node {
	for _, k := range n.Keys {
		if k.Text == text {
			return k
		}
	}
	return n
}
