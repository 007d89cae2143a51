package expr

import (
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// coder assembles code from text and placeholders' values. A value becomes a
// literal, and inside quotes escaped text: it can never become code.
type coder struct {
	buf  []byte
	runs []run
	scan scanner
}

func newCoder() *coder { return &coder{} }

// add adds code as written at offset in the source.
func (c *coder) add(code string, offset int) {
	if n := len(c.runs); n == 0 || c.runs[n-1].value || c.runs[n-1].text+len(c.buf)-c.runs[n-1].code != offset {
		c.runs = append(c.runs, run{code: len(c.buf), text: offset})
	}
	for i := range len(code) {
		c.scan.next(code[i])
	}
	c.buf = append(c.buf, code...)
}

// placeholder adds a value.
func (c *coder) placeholder(p schema.Piece) {
	c.runs = append(c.runs, run{code: len(c.buf), text: p.Offset, value: true})
	switch {
	case c.scan.comment():
	case c.scan.quote == '`':
		c.buf = append(c.buf, strings.ReplaceAll(p.Text, "`", "``")...)
	case c.scan.quote != 0:
		c.buf = appendEscaped(c.buf, p.Text, c.scan.quote)
	default:
		// The blanks keep it apart from what is next to it: 1${X} is not a number.
		c.buf = append(c.buf, ' ')
		if p.Quoted {
			c.buf = appendQuoted(c.buf, p.Text)
		} else {
			c.buf = append(c.buf, literal(p.Text)...)
		}
		c.buf = append(c.buf, ' ')
	}
}

var jsonNumber = lazily(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// integer says whether text has only digits, after a minus or not.
func integer(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && strings.TrimLeft(digits, "0123456789") == ""
}

// literal spells a placeholder's value as code: a number, true, false, nil, or else a text.
// It is one word whatever is next to it: with a bare -5, "a ${X}" would be a subtraction,
// and with (-5) a call.
func literal(value string) string {
	switch value {
	case "true", "false":
		return value
	case "null", "nil":
		return "nil"
	}
	switch {
	case !jsonNumber().MatchString(value):
		return quoted(value)
	case integer(value) && (value[0] == '-' || len(value) > 18):
		return "int(" + quoted(value) + ")"
	case value[0] == '-' || len(value) > 18:
		return "float(" + quoted(value) + ")"
	}
	return value
}

func quoted(text string) string { return string(appendQuoted(nil, text)) }

// appendEscaped escapes text for a place between quotes.
func appendEscaped(dst []byte, text string, quote byte) []byte {
	const hex = "0123456789abcdef"
	for i := range len(text) {
		switch c := text[i]; {
		case c == quote || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// scanner knows, byte for byte, whether code is inside quotes, a comment or brackets.
type scanner struct {
	quote  byte // open, or 0
	escape bool // the byte before was a backslash in quotes
	slash  byte // in a comment: '/' or '*'
	last   byte // outside of quotes and comments, or within a comment
	depth  int  // open brackets
}

// plain says whether code is outside of quotes and comments.
func (s *scanner) plain() bool   { return s.quote == 0 && s.slash == 0 }
func (s *scanner) comment() bool { return s.slash != 0 }

func (s *scanner) next(c byte) {
	switch {
	case s.escape:
		s.escape = false
	case s.quote != 0:
		s.escape = c == '\\' && s.quote != '`'
		if c == s.quote {
			s.quote = 0
		}
	case s.slash == '/':
		if c == '\n' {
			s.slash = 0
		}
	case s.slash == '*':
		if c == '/' && s.last == '*' {
			s.slash, c = 0, 0
		}
		s.last = c
	default:
		s.code(c)
	}
}

// code is a byte outside of quotes and comments.
func (s *scanner) code(c byte) {
	switch c {
	case '"', '\'', '`':
		s.quote = c
	case '/', '*':
		if s.last == '/' {
			s.slash, c = c, 0
		}
	case '(', '[', '{':
		s.depth++
	case ')', ']', '}':
		s.depth--
	}
	s.last = c
}
