package bloblang

import (
	"fmt"
	"sort"
	"unicode/utf8"
)

// maxDepth bounds the nesting of expressions and statements.
const maxDepth = 300

// Parse parses a mapping. Its error is a [*SyntaxError].
func Parse(src string) (m *Mapping, err error) {
	p := &parser{source: newSource(src), maps: map[string]*namedMap{}}
	defer p.recover(&err)
	p.valid()
	return p.mapping(), nil
}

// parseQuery parses one expression in a text where a brace ends it, as in an interpolation, and returns its end.
func parseQuery(src string, from int) (n node, s *source, end int, err error) {
	p := &parser{source: newSource(src), maps: map[string]*namedMap{}}
	p.at = from
	defer p.recover(&err)
	p.valid()
	p.space()
	n = p.query()
	p.space()
	return n, p.source, p.at, nil
}

type source struct {
	text  string
	lines []int // beginnings of lines
}

func newSource(text string) *source {
	s := &source{text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// position returns the line and the column, in characters, of a byte offset.
func (s *source) position(at int) (line, column int) {
	at = min(at, len(s.text))
	line = sort.SearchInts(s.lines, at+1)
	return line, utf8.RuneCountInString(s.text[s.lines[line-1]:at]) + 1
}

type parser struct {
	*source
	at       int
	depth    int
	names    []string // parameters of the enclosing lambdas
	maps     map[string]*namedMap
	comments []comment
}

// failure is the value that the parser panics with, and recovers.
type failure struct{ err *SyntaxError }

func (p *parser) fail(at int, format string, args ...any) {
	line, column := p.position(at)
	panic(failure{&SyntaxError{Line: line, Column: column, Problem: fmt.Sprintf(format, args...)}})
}

func (p *parser) recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// valid rejects bytes that are not valid text.
func (p *parser) valid() {
	for i, r := range p.text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(p.text[i:]); n == 1 {
				p.fail(i, "there is a byte here that is not UTF-8")
			}
		}
	}
}

// enter counts a level of nesting. Calling its result leaves the level.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "this is nested more than %d levels deep", maxDepth)
	}
	return func() { p.depth-- }
}
