package doc

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ParsePath parses a path as in expressions: a.b[0]["odd name"]. Names consist of letters, digits, _ and $, and do
// not begin with a digit. Other keys are quoted. A leading this is the document: this.a is a, and this.this is the
// field named this. An empty text is the whole document, too. The error is a *[PathError].
func ParsePath(s string) (Path, error) {
	r := pathReader{text: s}
	for r.pos < len(s) {
		p, msg := r.part()
		if msg != "" {
			return Path{}, &PathError{s, r.pos, msg}
		}
		if r.pos == len(document) && s[:r.pos] == document {
			continue
		}
		r.parts = append(r.parts, p)
	}
	return Path{s, r.parts}, nil
}

// MustParsePath is ParsePath for constants. It panics on an error.
func MustParsePath(s string) Path {
	p, err := ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}

// document is the optional beginning of a path.
const document = "this"

type pathReader struct {
	text  string
	pos   int
	parts []part
}

// part parses the next part. If there is a problem, pos is its place.
func (r *pathReader) part() (p part, problem string) {
	switch {
	case r.text[r.pos] == '[':
		return r.bracket()
	case r.pos == 0:
		return r.name()
	case r.text[r.pos] == '.':
		r.pos++
		return r.name()
	}
	return p, `expected '.' or '[' (quote a key that is not a plain name: ["x-y"])`
}

func (r *pathReader) name() (p part, problem string) {
	end := r.pos + nameLen(r.text[r.pos:])
	if end == r.pos {
		return p, `expected a name (quote a key that is not a name: ["x-y"])`
	}
	p.key, r.pos = r.text[r.pos:end], end
	return p, ""
}

// bracket reads [0] or ["key"].
func (r *pathReader) bracket() (p part, problem string) {
	open := r.pos
	r.pos++
	rest := r.text[r.pos:]
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		return r.quoted(rest)
	}
	digits, _, closed := strings.Cut(rest, "]")
	if !closed {
		r.pos = open
		return p, "'[' is never closed"
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || digits[0] == '+' || digits[0] == '-' {
		return p, "expected an index from 0 or a quoted key"
	}
	r.pos += len(digits) + 1
	return part{index: n, elem: true}, ""
}

// quoted parses from the quote in rest to the end of the bracket.
func (r *pathReader) quoted(rest string) (p part, problem string) {
	var key []byte
	for tail := rest[1:]; tail != ""; {
		if tail[0] == rest[0] {
			tail = tail[1:]
			if !strings.HasPrefix(tail, "]") {
				r.pos = len(r.text) - len(tail)
				return p, "expected ']' after a key"
			}
			r.pos = len(r.text) - len(tail) + 1
			return part{key: string(key)}, ""
		}
		c, _, next, err := strconv.UnquoteChar(tail, rest[0])
		if err != nil {
			r.pos = len(r.text) - len(tail)
			return p, "unknown escape in a quoted key"
		}
		key = utf8.AppendRune(key, c)
		tail = next
	}
	return p, "a quoted key is never closed"
}

// nameLen returns how many bytes at the beginning of s form a name.
func nameLen(s string) int {
	for i, c := range s {
		if !inName(c, i == 0) {
			return i
		}
	}
	return len(s)
}

func inName(c rune, first bool) bool {
	if c == '_' || c == '$' || unicode.IsLetter(c) {
		return true
	}
	return !first && (unicode.IsDigit(c) || unicode.IsMark(c))
}
