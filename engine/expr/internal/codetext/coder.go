// Package codetext knows code as text: how it comes together from a configuration and its placeholders ([Coder]), where each
// byte of it came from ([Origin]), and what is inside quotes, comments and brackets ([Scanner]).
package codetext

import (
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

// Coder assembles code from text and the values of placeholders. A value becomes a literal, or escaped text inside quotes:
// it can never become code. The zero Coder is ready.
type Coder struct {
	Code []byte  // so far
	Runs []Run   // where Code is from
	Scan Scanner // at the end of Code
}

// Add adds code as written at offset in the source.
func (c *Coder) Add(code string, offset int) {
	if n := len(c.Runs); n == 0 || c.Runs[n-1].Value || c.Runs[n-1].Text+len(c.Code)-c.Runs[n-1].Code != offset {
		c.Runs = append(c.Runs, Run{Code: len(c.Code), Text: offset})
	}
	for i := range len(code) {
		c.Scan.Next(code[i])
	}
	c.Code = append(c.Code, code...)
}

// AddPlaceholder adds the value of a placeholder.
func (c *Coder) AddPlaceholder(p schema.Piece) {
	c.Runs = append(c.Runs, Run{Code: len(c.Code), Text: p.Offset, Value: true})
	switch {
	case c.Scan.comment():
	case c.Scan.Quote == '`':
		c.Code = append(c.Code, strings.ReplaceAll(p.Text, "`", "``")...)
	case c.Scan.Quote != 0:
		c.Code = AppendEscaped(c.Code, p.Text, c.Scan.Quote)
	default:
		// The blanks keep the value apart from its neighbours: 1${X} is not one number.
		c.Code = append(c.Code, ' ')
		if p.Quoted {
			c.Code = AppendQuoted(c.Code, p.Text)
		} else {
			c.Code = append(c.Code, Literal(p.Text)...)
		}
		c.Code = append(c.Code, ' ')
	}
}

var jsonNumber = memo.Regexp(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// Literal is the value of a placeholder as code: a number, true, false, nil, or else a text. It is one word, whatever precedes it:
// after a name, -5 would be a subtraction, and (-5) a call.
func Literal(text string) string {
	switch text {
	case "true", "false":
		return text
	case "null", "nil":
		return "nil"
	}
	switch {
	case !jsonNumber().MatchString(text):
		return Quote(text)
	case value.IsInteger(text) && (text[0] == '-' || len(text) > 18):
		return "int(" + Quote(text) + ")"
	case text[0] == '-' || len(text) > 18:
		return "float(" + Quote(text) + ")"
	}
	return text
}

func Quote(text string) string { return string(AppendQuoted(nil, text)) }

// AppendQuoted quotes text as JSON does, with as few escapes as possible: the source of most texts in a document is the same. Bytes
// that are not UTF-8 stay, so that different texts stay different.
func AppendQuoted(dst []byte, text string) []byte {
	return append(AppendEscaped(append(dst, '"'), text, '"'), '"')
}

// AppendEscaped escapes text that is put between quotes.
func AppendEscaped(dst []byte, text string, quote byte) []byte {
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

// Scanner knows, byte for byte, whether code is inside quotes, a comment or brackets.
type Scanner struct {
	Quote  byte // open, or 0
	escape bool // the byte before was a backslash in quotes
	Slash  byte // in a comment: '/' or '*'
	Last   byte // outside of quotes and comments, or within a comment
	Depth  int  // open brackets
}

// Plain says whether code is outside of quotes and comments.
func (s *Scanner) Plain() bool   { return s.Quote == 0 && s.Slash == 0 }
func (s *Scanner) comment() bool { return s.Slash != 0 }

func (s *Scanner) Next(c byte) {
	switch {
	case s.escape:
		s.escape = false
	case s.Quote != 0:
		s.escape = c == '\\' && s.Quote != '`'
		if c == s.Quote {
			s.Quote = 0
		}
	case s.Slash == '/':
		if c == '\n' {
			s.Slash = 0
		}
	case s.Slash == '*':
		if c == '/' && s.Last == '*' {
			s.Slash, c = 0, 0
		}
		s.Last = c
	default:
		s.code(c)
	}
}

// code is a byte outside of quotes and comments.
func (s *Scanner) code(c byte) {
	switch c {
	case '"', '\'', '`':
		s.Quote = c
	case '/', '*':
		if s.Last == '/' {
			s.Slash, c = c, 0
		}
	case '(', '[', '{':
		s.Depth++
	case ')', ']', '}':
		s.Depth--
	}
	s.Last = c
}
