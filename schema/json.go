package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth bounds ParseJSON's own recursion. A [Decoder] allows far less.
const maxJSONDepth = 1000

// ParseJSON parses JSON text into a tree with places, and keeps the order of keys. It is for tests, and for programs
// without a file. The error names the place.
func ParseJSON(text string) (*Node, error) {
	p := &jsonParser{text: text, dec: json.NewDecoder(strings.NewReader(text)), lines: lineStarts(text)}
	p.dec.UseNumber()
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	at := p.start()
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.bad(at, errors.New("expected only one value"))
	}
	return n, nil
}

type jsonParser struct {
	text  string
	dec   *json.Decoder
	lines []int // byte offsets of line starts
}

// start returns the offset of the next token.
func (p *jsonParser) start() int {
	return len(p.text) - len(strings.TrimLeft(p.text[p.dec.InputOffset():], " \t\r\n,:"))
}

func (p *jsonParser) value(depth int) (*Node, error) {
	at := p.start()
	if depth > maxJSONDepth {
		return nil, p.bad(at, errors.New("nested too deep"))
	}
	token, err := p.dec.Token()
	if err != nil {
		return nil, p.bad(at, err)
	}
	end := int(p.dec.InputOffset())
	n := &Node{Pos: p.pos(at), Excerpt: p.line, Text: p.text[min(at, end):end]}
	switch t := token.(type) {
	case nil:
		n.Kind = NullNode
	case bool:
		n.Kind = BoolNode
	case json.Number:
		n.Kind = IntNode
		if strings.ContainsAny(n.Text, ".eE") {
			n.Kind = FloatNode
		}
	case string:
		n.Kind, n.Offset = TextNode, p.offsets(at) // JSON has only one style of text
		n.Text = t
	case json.Delim:
		n.Text = ""
		return n, p.items(n, t, depth)
	}
	return n, nil
}

// items parses the contents of a list or mapping, and its end.
func (p *jsonParser) items(n *Node, open json.Delim, depth int) error {
	n.Kind = ListNode
	if open == '{' {
		n.Kind = MapNode
	}
	for p.dec.More() {
		if n.Kind == MapNode {
			key, err := p.value(depth + 1)
			if err != nil {
				return err
			}
			n.Keys = append(n.Keys, key)
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	at := p.start()
	if _, err := p.dec.Token(); err != nil {
		return p.bad(at, err)
	}
	return nil
}

func (p *jsonParser) bad(at int, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%v: %w", p.pos(at), err)
}

// pos returns the place of a byte.
func (p *jsonParser) pos(at int) Pos {
	at = min(at, len(p.text))
	line := sort.SearchInts(p.lines, at+1)
	return Pos{Line: line, Col: 1 + utf8.RuneCountInString(p.text[p.lines[line-1]:at])}
}

// line returns the source line at a place.
func (p *jsonParser) line(at Pos) string {
	if at.Line < 1 || at.Line > len(p.lines) {
		return ""
	}
	line, _, _ := strings.Cut(p.text[p.lines[at.Line-1]:], "\n")
	return strings.TrimSuffix(line, "\r")
}

func lineStarts(text string) []int {
	starts := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// offsets returns a function that finds the place of a byte of a string, counted after unescaping. The string's
// opening quote is at at.
func (p *jsonParser) offsets(at int) func(int) Pos {
	return func(want int) Pos {
		i := at + 1
		for decoded := 0; i < len(p.text) && p.text[i] != '"'; {
			raw, size := character(p.text[i:])
			if decoded += size; decoded > want {
				break
			}
			i += raw
		}
		return p.pos(i)
	}
}

// character returns the length of the first character of a string's text, with a pair of surrogates as one character,
// and the length of its value.
func character(text string) (raw, size int) {
	if text[0] == '\\' {
		for _, raw := range []int{len(`\ud83d\ude00`), len(`\u0000`), len(`\n`)} {
			var s string
			if len(text) >= raw && json.Unmarshal([]byte(`"`+text[:raw]+`"`), &s) == nil &&
				utf8.RuneCountInString(s) == 1 {
				return raw, len(s)
			}
		}
	}
	r, raw := utf8.DecodeRuneInString(text)
	return raw, utf8.RuneLen(r)
}
