package yamltext

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/schema"
)

// Source is the text of one file or override, and finds places in it. It is read-only once made.
type Source struct {
	file  string
	text  string // without the byte order mark
	lines []int  // where each line begins, as editors count them
	marks []int  // where each line begins, as the YAML parser counts them
	flat  bool   // an override: places have a column but no line
}

// NewOverride returns the text of an override, with a name for problems.
func NewOverride(name, text string) *Source {
	s := newSource(name, text)
	s.flat = true
	return s
}

// newSource indexes the lines of text. There are two indexes, since the parser takes more characters for line breaks
// than editors do.
func newSource(file, text string) *Source {
	s := &Source{file: file, text: text, lines: []int{0}, marks: []int{0}}
	for i := 0; i < len(text); {
		n := breakLen(text[i:])
		if n == 0 {
			i++
			continue
		}
		i += n
		s.marks = append(s.marks, i)
		if text[i-1] == '\n' {
			s.lines = append(s.lines, i)
		}
	}
	return s
}

// breakLen returns the length of the line break at the beginning of s, or 0: CR, LF, both, and the Unicode characters
// NEL, LS and PS, which YAML 1.1 knows.
func breakLen(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == '\n':
		return 1
	case s[0] == '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	case strings.HasPrefix(s, "\u0085"):
		return 2
	case strings.HasPrefix(s, "\u2028"), strings.HasPrefix(s, "\u2029"):
		return 3
	}
	return 0
}

// Pos returns the place of the byte at off.
func (s *Source) Pos(off int) schema.Pos {
	off = min(max(off, 0), len(s.text))
	line, found := slices.BinarySearch(s.lines, off)
	if !found {
		line--
	}
	col := utf8.RuneCountInString(s.text[s.lines[line]:off]) + 1
	if s.flat {
		return schema.Pos{File: s.file, Col: col}
	}
	return schema.Pos{File: s.file, Line: line + 1, Col: col}
}

// cursor finds the places of nodes in order. It remembers the last place, since a file may be one line that must not
// be counted from its beginning for each node.
type cursor struct {
	*Source
	line, col, off int        // the last place in the parser's terms, and its byte
	last           schema.Pos // the last place
	lastOff        int
}

// offset returns the byte at the parser's line and column, counted from 1.
func (c *cursor) offset(line, col int) int {
	if line < 1 || line > len(c.marks) {
		return len(c.text)
	}
	if c.line != line || c.col > col {
		c.line, c.col, c.off = line, 1, c.marks[line-1]
	}
	for ; c.col < col && c.off < len(c.text); c.col++ {
		_, n := utf8.DecodeRuneInString(c.text[c.off:])
		c.off += n
	}
	return c.off
}

// Pos returns the place of the byte at off.
func (c *cursor) Pos(off int) schema.Pos {
	if c.lastOff <= off && c.last.Col > 0 && !strings.Contains(c.text[c.lastOff:off], "\n") {
		c.last.Col += utf8.RuneCountInString(c.text[c.lastOff:off])
	} else {
		c.last = c.Source.Pos(off)
	}
	c.lastOff = off
	return c.last
}

// line returns the text of a line, counted from 1, without its end.
func (s *Source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	end := len(s.text)
	if n < len(s.lines) {
		end = s.lines[n] - 1
	}
	return strings.TrimSuffix(s.text[s.lines[n-1]:end], "\r")
}

// Excerpt returns the source line at p, or the beginning of a very long one.
func (s *Source) Excerpt(p schema.Pos) string {
	const longest = 64 << 10
	line := s.line(max(p.Line, 1))
	if len(line) <= longest {
		return line
	}
	end := longest
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end]
}

// Problem returns a problem at the byte at off.
func (s *Source) Problem(off int, p schema.Problem) schema.Problem {
	p.Pos = s.Pos(off)
	p.Excerpt, p.Caret = s.Excerpt(p.Pos), p.Pos
	return p
}

// refuse reports whether, where and why bytes can't be a pipeline file at all.
func refuse(data []byte) (off int, p schema.Problem, bad bool) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return 0, schema.Problem{Code: "not-utf8", Message: "the file is UTF-16", Remedy: "save it as UTF-8"}, true
	}
	for off < len(data) {
		r, n := utf8.DecodeRune(data[off:])
		switch {
		case r == utf8.RuneError && n == 1:
			return off, schema.Problem{Code: "not-utf8", Message: "the text is not UTF-8 here",
				Remedy: "save the file as UTF-8, if it is a pipeline file at all"}, true
		case Forbidden(r):
			return off, schema.Problem{Code: "control-character",
				Message: fmt.Sprintf("the control character %U is not allowed", r),
				Remedy:  `remove it; if it is intended, write an escape in double quotes: "\x1b"`}, true
		}
		off += n
	}
	return 0, schema.Problem{}, false
}

// Forbidden reports whether YAML allows a character nowhere.
func Forbidden(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return false
	case r == 0xfffe, r == 0xffff:
		return true
	}
	return r < ' ' || 0x7f <= r && r < 0xa0
}
