package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

const overrideExample = "write, for example, -s engine.workers=2, -s outputs.lake.file.path=/tmp/x, -s 'processors[0].filter=status >= " +
	"500' or, by the step's name, -s processors.NAME.timeout=5s"

// override applies Options.Set. An override that names a component applies to the files that have it. With a single
// file it may also add the component.
func (l *loader) override() {
	for _, text := range l.options.Set {
		o := l.parseOverride(text)
		if o == nil {
			continue
		}
		if o.path[0].key == "include" {
			l.report(o.src.Problem(0, schema.Problem{Code: "bad-override", Message: "files are included before values are overridden",
				Remedy: "write `include` in the file"}))
			continue
		}
		files := l.files
		if len(files) > 1 {
			files = o.concerned(files)
		}
		for _, f := range files {
			if value := o.node(); value != nil { // each file needs nodes of its own
				o.apply(f.root, value, l.shorts(f.root))
			}
		}
		if len(files) == 0 && len(l.files) > 0 {
			l.report(o.src.Problem(0, schema.Problem{Code: "unknown-override",
				Message: fmt.Sprintf("none of the %d files contains %s", len(l.files), pathOf(o.path[:min(2, len(o.path))])),
				Remedy:  "check the path; `flowd lint --show` prints all values"}))
		}
	}
}

// shorts returns what a file writes in short form, which only decoding finds out.
func (l *loader) shorts(root *schema.Node) func(path string) (schema.Short, bool) {
	d := schema.NewDecoder(l.options.Lookup)
	d.Decode(root, new(document))
	return d.ShortAt
}

// maxPath bounds the steps of a path: no file is nested deeper.
const maxPath = 200

// override is a parsed "path=value".
type override struct {
	*loader
	src   *yamltext.Source // the whole text
	path  []step
	value int // where the value begins in the text
}

// step is one part of a path: a key, or an index.
type step struct {
	key   string
	index int // -1: a key
	off   int // where it begins in the override's text
}

// parseOverride parses an override. It returns nil after reporting an error.
func (l *loader) parseOverride(text string) *override {
	path, _, ok := strings.Cut(text, "=")
	// The name contains only the path, since the value may be a secret.
	o := &override{loader: l, src: yamltext.NewOverride("-s "+path, text), value: len(path) + 1}
	bad := func(off int, message string) *override {
		l.report(o.src.Problem(off, schema.Problem{Code: "bad-override", Message: message, Remedy: overrideExample}))
		return nil
	}
	if !ok {
		return bad(0, "an override is path=value, but this has no =")
	}
	for off, rest := 0, path; ; {
		n := strings.IndexAny(rest, ".[")
		if n < 0 {
			n = len(rest)
		}
		if n == 0 {
			return bad(off, "a name is missing in the path")
		}
		if len(o.path) > maxPath {
			return bad(off, fmt.Sprintf("the path has more than %d steps", maxPath))
		}
		o.path = append(o.path, step{key: strings.TrimSpace(rest[:n]), index: -1, off: off})
		off, rest = off+n, rest[n:]
		for strings.HasPrefix(rest, "[") {
			end := strings.IndexByte(rest, ']')
			index, err := strconv.Atoi(rest[1:max(end, 1)])
			if err != nil || index < 0 {
				return bad(off, "an index is a number in brackets, counted from 0")
			}
			if len(o.path) > maxPath {
				return bad(off, fmt.Sprintf("the path has more than %d steps", maxPath))
			}
			o.path = append(o.path, step{index: index, off: off})
			off, rest = off+end+1, rest[end+1:]
		}
		if rest == "" {
			return o
		}
		if rest[0] != '.' {
			return bad(off, "a dot is missing in the path")
		}
		off, rest = off+1, rest[1:]
	}
}

// node parses the value, or returns nil after reporting an error. Its places are columns of the override's
// text.
func (o *override) node() *schema.Node {
	n, problems := o.src.Value(o.value, pathOf(o.path))
	o.report(problems...)
	if n != nil {
		o.mark(n)
	}
	return n
}

// mark sets the origin of n and of everything below it.
func (o *override) mark(n *schema.Node) {
	n.Origin, n.Excerpt = "override", o.src.Excerpt
	for _, list := range [][]*schema.Node{n.Keys, n.Items} {
		for _, item := range list {
			o.mark(item)
		}
	}
}

// concerned returns the files to which the override applies. If no file has a section that belongs to the process,
// the first file gets it.
func (o *override) concerned(files []*file) []*file {
	found := slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return !o.concerns(f.root) })
	if section := o.path[0].key; len(found) == 0 && (section == "service" || section == "resources") {
		return files[:1]
	}
	return found
}

// concerns reports whether a file has the component that the path names.
func (o *override) concerns(root *schema.Node) bool {
	switch o.path[0].key {
	case "inputs", "processors", "batchers", "outputs", "resources", "service", "tests":
	default:
		return true
	}
	n := root.Lookup(o.path[0].key)
	if n == nil || len(o.path) == 1 {
		return n != nil
	}
	s := o.path[1]
	if s.index >= 0 {
		return n.Kind == schema.ListNode && s.index < len(n.Items)
	}
	_, used := longestKey(n, o.path[1:])
	return used > 0
}

// apply puts value at the path. On the way it makes missing mappings, and writes out short forms.
func (o *override) apply(root, value *schema.Node, shortAt func(path string) (schema.Short, bool)) {
	n, path := root, ""
	for i := 0; i < len(o.path); {
		at, used := o.path[:i], 1
		switch s := o.path[i]; {
		case s.index >= 0:
			n = o.index(n, at, s)
			path += "[" + strconv.Itoa(s.index) + "]"
		case n.Kind == schema.ListNode && named(n, s.key) >= 0:
			path += "[" + strconv.Itoa(named(n, s.key)) + "]"
			n = n.Items[named(n, s.key)]
		default:
			if short, ok := shortAt(path); ok && n.Kind != schema.MapNode {
				o.writeOut(n, short)
			}
			n, used = o.key(n, at, o.path[i:])
			path = schema.Join(path, strings.TrimPrefix(pathOf(o.path[i:i+used]), "."))
		}
		if n == nil {
			return
		}
		i += used
	}
	keep := n.Pos
	*n = *value
	n.Pos = cmp.Or(n.Pos, keep)
}

// named returns the index of the item with a name, or -1.
func named(n *schema.Node, name string) int {
	return slices.IndexFunc(n.Items, func(item *schema.Node) bool {
		is := item.Kind == schema.MapNode && item.Lookup("name") != nil
		return is && item.Lookup("name").Text == name
	})
}

// writeOut turns a value in short form into the full mapping.
func (o *override) writeOut(n *schema.Node, s schema.Short) {
	value := *n
	if s.Word {
		value.Kind, value.Text = schema.NullNode, ""
	}
	key := &schema.Node{Kind: schema.TextNode, Text: s.Field, Pos: n.Pos, Excerpt: n.Excerpt, Origin: n.Origin}
	*n = schema.Node{Kind: schema.MapNode, Pos: n.Pos, Excerpt: n.Excerpt, Origin: n.Origin, Keys: []*schema.Node{key},
		Items: []*schema.Node{&value}}
}

// key finds the value of a key of n, or adds the key. A key that contains dots uses several steps. The value is nil
// if n can't have keys.
func (o *override) key(n *schema.Node, at, rest []step) (item *schema.Node, used int) {
	if n.Kind == schema.NullNode && n.Text == "" {
		n.Kind = schema.MapNode
	}
	if n.Kind != schema.MapNode {
		return o.refuse(rest[0], fmt.Sprintf("%s is %v, so it has no %q", pathOf(at), n.Kind, rest[0].key)), 0
	}
	if i, used := longestKey(n, rest); used > 0 {
		return n.Items[i], used
	}
	pos := o.src.Pos(rest[0].off)
	key := &schema.Node{Kind: schema.TextNode, Text: rest[0].key, Pos: pos, Origin: "override", Excerpt: o.src.Excerpt}
	item = &schema.Node{Pos: pos, Origin: "override", Excerpt: o.src.Excerpt}
	n.Keys, n.Items = append(n.Keys, key), append(n.Items, item)
	return item, 1
}

// index finds an item of n, or adds one after the last. It returns nil if n can't have that item.
func (o *override) index(n *schema.Node, at []step, s step) *schema.Node {
	if n.Kind == schema.NullNode && n.Text == "" {
		n.Kind = schema.ListNode
	}
	if n.Kind == schema.TextNode { // a single item instead of a list
		item := *n
		*n = schema.Node{Kind: schema.ListNode, Pos: n.Pos, Excerpt: n.Excerpt, Origin: n.Origin,
			Items: []*schema.Node{&item}}
	}
	switch {
	case n.Kind != schema.ListNode:
		return o.refuse(s, fmt.Sprintf("%s is %v, not a list", pathOf(at), n.Kind))
	case s.index > len(n.Items):
		return o.refuse(s, fmt.Sprintf("%s has %s, counted from 0", pathOf(at), items(len(n.Items))))
	case s.index == len(n.Items):
		n.Items = append(n.Items, &schema.Node{Pos: o.src.Pos(s.off), Origin: "override", Excerpt: o.src.Excerpt})
	}
	return n.Items[s.index]
}

func items(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}

// refuse reports a step of the path at which there can be no value, and returns nil.
func (o *override) refuse(s step, message string) *schema.Node {
	o.report(o.src.Problem(s.off, schema.Problem{Code: "bad-override", Message: message,
		Remedy: "check the path; `flowd lint --show` prints all values"}))
	return nil
}

// longestKey finds the key of n that spells the most steps: customer.name is one key of a `set`.
func longestKey(n *schema.Node, path []step) (i, used int) {
	for j, key := range n.Keys {
		for k := len(path); k > used; k-- {
			if pathOf(path[:k]) == key.Text {
				i, used = j, k
			}
		}
	}
	return i, used
}

// pathOf formats a path.
func pathOf(path []step) string {
	var b strings.Builder
	for i, s := range path {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		case i > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}
