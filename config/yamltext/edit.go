package yamltext

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// Editor changes values of a file, and leaves everything else unchanged.
type Editor struct {
	mark  string // the byte order mark, if any
	src   *Source
	root  *yaml.Node
	edits []edit
	keys  []*yaml.Node // keys whose values are replaced
	grown []*yaml.Node // lists that get another item
}

// edit replaces the text between two offsets in bytes.
type edit struct {
	from, to int
	text     string
}

// ErrShared says that a value is written elsewhere in the file, so it can't be changed in one place only.
var ErrShared = errors.New("it is written elsewhere, through an anchor or merge key")

// Edit reads a file for editing.
func Edit(file string, data []byte) (*Editor, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	root, _, err := documents(text)
	return &Editor{mark: string(data[:len(data)-len(text)]), src: newSource(file, text), root: root}, err
}

// Root returns the whole file as a value.
func (e *Editor) Root() Value { return Value{n: e.root} }

// Set replaces or adds the value of a key of a mapping in the file. It keeps the mapping's style: braces or
// lines.
func (e *Editor) Set(in Value, name string, value Value) error {
	var key, old *yaml.Node
	for k, v := range in.Pairs() {
		if k.n.Value == name {
			key, old = k.n, v.n
		}
	}
	if anchored(old) {
		return ErrShared
	}
	if key == nil {
		key = textNode(name)
	} else {
		e.keys = append(e.keys, key)
	}
	if in.flow || in.n.Style&yaml.FlowStyle != 0 {
		return e.setInFlow(in.n, key, old, value.n)
	}
	return e.setInBlock(in.n, key, old, value.n)
}

// Add adds an item at the end of a list, which is the value of a key of a mapping in the file. A list that is missing or
// empty is written anew.
func (e *Editor) Add(in Value, name string, item Value) error {
	var key, list *yaml.Node
	for k, v := range in.Pairs() {
		if k.n.Value == name {
			key, list = k.n, v.n
		}
	}
	switch {
	case list == nil, list.Kind == yaml.SequenceNode && len(list.Content) == 0, list.Tag == "!!null":
		return e.Set(in, name, List(item))
	case anchored(list), list.Kind != yaml.SequenceNode:
		return ErrShared
	case list.Style&yaml.FlowStyle != 0:
		return fmt.Errorf("the list `%s` is in brackets (write each item on a line of its own)", name)
	}
	text, err := render(made(yaml.SequenceNode, []Value{item}).n)
	if err != nil {
		return err
	}
	indent := "\n" + strings.Repeat(" ", list.Column-1)
	end := e.blockEnd(key, list)
	e.grown = append(e.grown, list)
	e.edits = append(e.edits, edit{end, end, indent + strings.ReplaceAll(text, "\n", indent)})
	return nil
}

func (e *Editor) setInFlow(test, key, old, value *yaml.Node) error {
	text, err := render(oneLine(value))
	if err != nil {
		return err
	}
	if old != nil {
		from := e.offset(old)
		e.edits = append(e.edits, edit{from, flowEnd(e.src.text, from), text})
		return nil
	}
	if test.Style&yaml.FlowStyle == 0 {
		return ErrShared
	}
	end := flowEnd(e.src.text, e.offset(test)) - 1 // its closing brace
	end = len(strings.TrimRight(e.src.text[:end], " \t\r\n"))
	separator := ", "
	if strings.HasSuffix(e.src.text[:end], ",") {
		separator = " "
	}
	e.edits = append(e.edits, edit{end, end, separator + key.Value + ": " + text})
	return nil
}

func (e *Editor) setInBlock(test, key, old, value *yaml.Node) error {
	pair := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{textNode(key.Value), value}}
	pair.Content[0].LineComment = key.LineComment
	if old != nil && old.LineComment != "" {
		pair.Content[0].LineComment = old.LineComment
	}
	text, err := render(pair)
	if err != nil {
		return err
	}
	column := test.Content[0].Column - 1
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", column))
	if old != nil {
		from := e.offset(key)
		e.edits = append(e.edits, edit{from, e.blockEnd(key, old), text})
		return nil
	}
	last := len(test.Content)
	end := e.blockEnd(test.Content[last-2], test.Content[last-1])
	e.edits = append(e.edits, edit{end, end, "\n" + strings.Repeat(" ", column) + text})
	return nil
}

func (e *Editor) offset(n *yaml.Node) int {
	return (&cursor{Source: e.src}).offset(n.Line, n.Column)
}

// blockEnd returns where the value of a key in a block mapping ends: after the last line that is indented further
// than the key.
func (e *Editor) blockEnd(key, value *yaml.Node) int {
	off := e.offset(key)
	end := off + contentLen(e.src.text[off:])
	listed := value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0
	for at := off + lineLen(e.src.text[off:]); at < len(e.src.text); at += lineLen(e.src.text[at:]) {
		line := e.src.text[at : at+contentLen(e.src.text[at:])]
		indent := spaces(line)
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case indent >= key.Column, listed && indent == key.Column-1 && strings.HasPrefix(line[indent:], "-"):
			end = at + len(line)
			continue
		}
		return end
	}
	return end
}

// flowEnd returns where the value that begins at off inside { } or [ ] ends.
func flowEnd(text string, off int) int {
	depth := 0
	for i := off; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '\'' && (i == off || strings.IndexByte(" ,:[{\n\t", text[i-1]) >= 0):
			i++
			for ; i < len(text) && text[i] != '\''; i++ {
			}
		case c == '#' && i > 0 && strings.IndexByte(" \t\n", text[i-1]) >= 0:
			i += contentLen(text[i:]) - 1
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			return len(strings.TrimRight(text[:i], " \t\r\n"))
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// replaced returns the text with all changes.
func (e *Editor) replaced() string {
	text := e.src.text
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	slices.SortFunc(e.edits, func(a, b edit) int { return b.from - a.from })
	for i := 0; i < len(e.edits); i++ {
		c := e.edits[i]
		for i+1 < len(e.edits) && e.edits[i+1].from == c.from { // two keys added at the same place
			i++
			c.text = e.edits[i].text + c.text
		}
		text = text[:c.from] + strings.ReplaceAll(c.text, "\n", eol) + text[c.to:]
	}
	return text
}

// Apply returns the file with all changes, and its nodes. It checks that nothing else has changed.
func (e *Editor) Apply() (text string, root *schema.Node, err error) {
	err = errors.New("the file can't be rewritten safely (change it by hand)")
	text = e.replaced()
	if now, _, bad := documents(text); bad != nil || now == nil || !e.alike(e.root, now) {
		return "", nil, err
	}
	root, problems := Parse(e.src.file, []byte(text))
	if root == nil || len(problems) > 0 {
		return "", nil, err
	}
	return e.mark + text, root, nil
}

// alike compares two trees except for what was replaced or added.
func (e *Editor) alike(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.Value != b.Value || a.Anchor != b.Anchor {
		return false
	}
	if slices.Contains(e.grown, a) && len(b.Content) == len(a.Content)+1 {
		return slices.EqualFunc(a.Content, b.Content[:len(a.Content)], e.alike)
	}
	if a.Kind != yaml.MappingNode {
		return slices.EqualFunc(a.Content, b.Content, e.alike)
	}
	if len(b.Content) < len(a.Content) {
		return false
	}
	for i := 0; i+1 < len(a.Content); i += 2 {
		if !e.alike(a.Content[i], b.Content[i]) || !slices.Contains(e.keys, a.Content[i]) &&
			!e.alike(a.Content[i+1], b.Content[i+1]) {
			return false
		}
	}
	return true
}

// render returns a node as text, without a line break at its end.
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
