package yamltext

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// scalar is the source text of a scalar. The parser gives only where it begins and what it means.
type scalar struct {
	src   *Source
	style schema.Style
	value string
	start int // where the text begins: after tags, anchors and the opening quote; for a block, its | or >
}

// newScalar finds the text of n, which begins at off.
func newScalar(src *Source, n *yaml.Node, off int) scalar {
	s := scalar{src: src, style: styleOf(n), value: n.Value}
	if n.Value == "" && s.style == schema.Plain {
		s.start = off // there is nothing after a tag or anchor
		return s
	}
	for off < len(src.text) && (src.text[off] == '!' || src.text[off] == '&') {
		off += wordLen(src.text[off:])
		off += spaceLen(src.text[off:])
	}
	if s.style == schema.SingleQuoted || s.style == schema.DoubleQuoted {
		off++
	}
	s.start = min(off, len(src.text))
	return s
}

func styleOf(n *yaml.Node) schema.Style {
	switch {
	case n.Style&yaml.SingleQuotedStyle != 0:
		return schema.SingleQuoted
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return schema.DoubleQuoted
	case n.Style&yaml.LiteralStyle != 0:
		return schema.Literal
	case n.Style&yaml.FoldedStyle != 0:
		return schema.Folded
	}
	return schema.Plain
}

// offset returns the place in the source of byte i of the value, or of its end if i is its length.
func (s scalar) offset(i int) int {
	if s.style == schema.Literal || s.style == schema.Folded {
		return s.blockOffset(i)
	}
	text, at, v := s.src.text, s.start, 0
	for at < len(text) && v < len(s.value) {
		from, made := s.next(at) // bytes of source, and of the value
		if v+made > i {
			break
		}
		at, v = at+from, v+made
	}
	return at
}

// next measures the piece at a place of the source: its length there, and its length in the value.
func (s scalar) next(at int) (from, made int) {
	text := s.src.text[at:]
	switch c := text[0]; {
	case s.style == schema.DoubleQuoted && c == '\\':
		return escapeLen(text)
	case s.style == schema.SingleQuoted && c == '\'':
		return 2, 1
	case c == ' ' || c == '\t' || breakLen(text) > 0:
		if n, breaks := foldLen(text); breaks > 0 {
			return n, max(1, breaks-1)
		}
	}
	return 1, 1
}

// foldLen measures white space: its length, and the number of line breaks in it.
func foldLen(s string) (n, breaks int) {
	for n < len(s) {
		switch b := breakLen(s[n:]); {
		case b > 0:
			n, breaks = n+b, breaks+1
		case s[n] == ' ' || s[n] == '\t':
			n++
		default:
			return n, breaks
		}
	}
	return n, breaks
}

// escapeLen returns the length of the escape at the beginning of s, and of its value. An escaped line break has no
// value, including the white space after it.
func escapeLen(s string) (from, made int) {
	if len(s) < 2 {
		return len(s), 0
	}
	if b := breakLen(s[1:]); b > 0 {
		n, _ := foldLen(s[1+b:])
		return 1 + b + n, 0
	}
	digits := 0
	switch s[1] {
	case 'N', '_':
		return 2, 2
	case 'L', 'P':
		return 2, 3
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return 2, 1
	}
	from = min(2+digits, len(s))
	var r rune
	for _, c := range []byte(s[2:from]) {
		r = r<<4 | rune(strings.IndexByte("0123456789abcdef", c|0x20)&15)
	}
	return from, len(string(r))
}

// blockOffset returns offset for | and > scalars.
func (s scalar) blockOffset(i int) int {
	text := s.src.text
	at := s.start + lineLen(text[s.start:])
	indent := s.indent(at)
	for v := 0; at < len(text); {
		end := at + contentLen(text[at:])
		at += min(indent, spaces(text[at:end]))
		if i < v+end-at {
			return at + max(i-v, 0)
		}
		v += end - at
		folds := v < len(s.value) && (s.value[v] == '\n' || s.value[v] == ' ')
		if i == v && (folds || v == len(s.value)) {
			return end
		}
		if folds {
			v++
		}
		at = end + breakLen(text[end:])
	}
	return len(text)
}

// indent returns the indentation, in spaces, of a block whose lines begin at off.
func (s scalar) indent(off int) int {
	rest := s.src.text[off:]
	for rest != "" {
		line := rest[:contentLen(rest)]
		if n := spaces(line); n < len(line) {
			return max(n-spaces(strings.TrimLeft(s.value, "\n")), 0)
		}
		rest = rest[lineLen(rest):]
	}
	return 0
}

// tail returns the comment after the scalar on its line.
func (s scalar) tail() string {
	if s.style == schema.Literal || s.style == schema.Folded {
		return ""
	}
	at := s.offset(len(s.value))
	switch {
	case s.style != schema.Plain:
		at++ // the closing quote
	case s.value == "" && at < len(s.src.text) && (s.src.text[at] == '!' || s.src.text[at] == '&'):
		at += wordLen(s.src.text[at:])
	}
	if at > len(s.src.text) {
		return ""
	}
	rest := s.src.text[at:]
	gap := spaces(rest)
	if c := rest[gap:]; gap > 0 && strings.HasPrefix(c, "#") {
		return strings.TrimRight(c[:contentLen(c)], " \t")
	}
	return ""
}

// spaces counts the blanks at the beginning of s.
func spaces(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// spaceLen returns the length of white space, including line breaks.
func spaceLen(s string) int { n, _ := foldLen(s); return n }

// until returns the distance to the first of some characters, or to the end of s.
func until(s, chars string) int {
	if n := strings.IndexAny(s, chars); n >= 0 {
		return n
	}
	return len(s)
}

// wordLen returns the distance to the next white space.
func wordLen(s string) int { return until(s, " \t\r\n") }

// contentLen returns the length of the first line of s without its end, lineLen with it.
func contentLen(s string) int { return until(s, "\r\n") }

func lineLen(s string) int {
	n := contentLen(s)
	return n + breakLen(s[n:])
}
