package schema

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pos is a place in a configuration file. Line and Col count from 1, Col in characters. The zero Pos is "nowhere": a
// value made by a program.
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// String returns file:line:col, as far as known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.File == "":
		return fmt.Sprintf("%d:%d", p.Line, p.Col)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// NodeKind says what a [Node] holds.
type NodeKind uint8

// The kinds of a node. Scalars keep the kind that YAML's core schema gives them.
const (
	NullNode NodeKind = iota
	BoolNode
	IntNode
	FloatNode
	TextNode
	ListNode
	MapNode
)

// String names the kind in problems: "a list".
func (k NodeKind) String() string {
	switch k {
	case NullNode:
		return "nothing"
	case BoolNode:
		return "true or false"
	case IntNode, FloatNode:
		return "a number"
	case ListNode:
		return "a list"
	case MapNode:
		return "a mapping"
	}
	return "text"
}

// Style says how a scalar was written.
type Style uint8

// The styles of a scalar.
const (
	Plain Style = iota
	SingleQuoted
	DoubleQuoted
	Literal // |
	Folded  // >
)

// Node is one value of a configuration, with its place. A file reader passes nodes to a [Decoder]; this package does
// not know YAML. Its JSON contains what another process needs to decode it.
type Node struct {
	Kind   NodeKind
	Text   string `json:",omitempty"` // of a scalar, before placeholders are resolved
	Style  Style  `json:",omitempty"`
	Tag    string `json:",omitempty"` // an explicit tag such as "!paid", else ""
	Tail   string `json:"-"`          // the comment after a scalar on its line, with its "#", else ""
	Pos    Pos
	Origin string  `json:"-"`          // where the value comes from if Pos does not say: "override"
	Keys   []*Node `json:",omitempty"` // of a MapNode, in order; Keys[i] is the key of Items[i]
	Items  []*Node `json:",omitempty"` // of a ListNode or MapNode
	Params *Params `json:",omitempty"` // in force here and below; nil: as above
	param  bool    // a key with a parameter in it

	// Offset returns the place of byte i of Text in the file. nil: Text is at Pos, unchanged.
	Offset func(i int) Pos `json:"-"`
	// Excerpt returns the whole source line at Pos, for problems.
	Excerpt func(p Pos) string `json:"-"`
}

// At returns the place of byte i of a scalar's text.
func (n *Node) At(i int) Pos {
	if n.Offset != nil {
		return n.Offset(i)
	}
	i = max(0, min(i, len(n.Text)))
	p := n.Pos
	if p.Line > 0 {
		p.Col += utf8.RuneCountInString(n.Text[:i])
	}
	return p
}

// Lookup returns the value of a key in a MapNode, or nil.
func (n *Node) Lookup(key string) *Node {
	for i, k := range n.Keys {
		if k.Text == key {
			return n.Items[i]
		}
	}
	return nil
}

// keyOf returns the key node of a key in a MapNode, or nil.
func (n *Node) keyOf(key string) *Node {
	for _, k := range n.Keys {
		if k.Text == key {
			return k
		}
	}
	return nil
}

// scalar reports whether n is one value with a text.
func (n *Node) scalar() bool {
	return n.Kind != NullNode && n.Kind != ListNode && n.Kind != MapNode
}

// deeperThan finds a node nested deeper than limit below n. It does not visit deeper nodes, so it needs little stack
// for any tree.
func (n *Node) deeperThan(limit int) *Node {
	if limit < 0 {
		return n
	}
	for _, item := range n.Items {
		if deep := item.deeperThan(limit - 1); deep != nil {
			return deep
		}
	}
	return nil
}

// Find returns the value at a path of keys below n, or nil.
func (n *Node) Find(keys ...string) *Node {
	for _, key := range keys {
		if n == nil {
			return nil
		}
		n = n.Lookup(key)
	}
	return n
}

// Problem returns a problem about n.
func (n *Node) Problem(p Problem) Problem {
	p.Pos = n.Pos
	if n.Excerpt != nil {
		p.Excerpt, p.Caret = n.Excerpt(n.Pos), n.Pos
	}
	return p
}

// inheritedFrom begins the origin of a value that another section gives.
const inheritedFrom = "inherited from "

// Inherits records that the value comes from the section at a path.
func (n *Node) Inherits(from string) { n.Origin = inheritedFrom + from }

// Inherited reports whether the value comes from another section.
func (n *Node) Inherited() bool { return strings.HasPrefix(n.Origin, inheritedFrom) }

// At returns the place of a field below at or, if that is not set, of what contains it.
func (at Place) At(keys ...string) Place {
	for _, key := range keys {
		at.Path, at.Node = Join(at.Path, key), cmp.Or(at.Node.Find(key), at.Node)
	}
	return at
}

// Key is At for the key of the field instead of its value.
func (at Place) Key(keys ...string) Place {
	n := at.Node
	for _, key := range keys {
		at.Path = Join(at.Path, key)
		if n != nil {
			at.Node = cmp.Or(n.keyOf(key), at.Node)
		}
		n = n.Find(key)
	}
	return at
}

// Item returns the place of an item of a list. If at is not a list, it returns at.
func (at Place) Item(i int) Place {
	if at.Node != nil && at.Node.Kind == ListNode && i < len(at.Node.Items) {
		at.Path, at.Node = fmt.Sprintf("%s[%d]", at.Path, i), at.Node.Items[i]
	}
	return at
}

// Problem returns a problem about what is at a place.
func (at Place) Problem(p Problem) Problem {
	p.Path, p.Pos = at.Path, at.Pos
	if at.Node != nil {
		return at.Node.Problem(p)
	}
	return p
}
