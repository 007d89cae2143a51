// Package bloblang translates Bloblang, the mapping language of Benthos, Bento and Redpanda Connect, into flowd's
// language. Start at [Steps], which turns a mapping into steps, and at [Parse] for the tree that it works on.
//
// A translation never guesses: what has no counterpart stands in its place as a call of a function that flowd does not
// have, so that lint refuses the file there, and a [Note] says why.
package bloblang

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Kind says what a note is about.
type Kind int

const (
	// Untranslated marks what has no counterpart: where it stood, lint finds an error.
	Untranslated Kind = iota + 1
	// Differs marks what runs, but not in every case as before.
	Differs
)

// Note says what a person has to know about a translation.
type Note struct {
	Line, Column int // in the source, from 1
	Kind         Kind
	Text         string // one sentence: what it is, and what to do
}

// Target says what a mapping makes of a message.
type Target int

const (
	// NewDocument is the target of `mapping` and `bloblang`: what the mapping does not assign is gone.
	NewDocument Target = iota
	// InPlace is the target of `mutation` and of a branch's `result_map`: what it does not assign stays.
	InPlace
)

// Options say where a mapping runs.
type Options struct {
	Target Target
	// This is the path in the document that steps see under which `this` stands, empty if that is the document itself.
	// A branch's `result_map` reads the result there.
	This string
	// Batch says that the steps run on a batch, so that batch_index() and the like mean something.
	Batch bool
	// Unescaped leaves ${ in what is written as it is, and [Dollar] in place of the dollar sign of a placeholder that is
	// meant; otherwise ${ of a text becomes $${. In either case a run of private runes, U+100000 and those up to U+1003FF,
	// is one operand, or a part of a text, and stays as it is: callers put it where they have taken out a placeholder.
	Unescaped bool
	// Import reads the file that an `import` or a `from` names; nil: there are none to read.
	Import func(path string) (string, error)
}

// Steps translates a mapping into steps of flowd's, each a mapping node of YAML: set, map, unset, filter, meta, let,
// switch, fail. Comments of the mapping stand at the nodes that they stood at. A mapping that changes nothing gives no
// steps. One that does not parse gives a single step that lint refuses, and the note says what is wrong with it.
func Steps(src string, o Options) ([]*yaml.Node, []Note) {
	p, list, err := prepare(src, o)
	if err != nil {
		return refused(src, err, o)
	}
	ops := p.plan(list)
	if o.Batch {
		ops = early(ops)
	}
	if extra := p.keeping(); len(extra) > 0 {
		ops = append(extra, ops...)
	}
	w := &writer{o}
	nodes := w.steps(ops)
	p.leftOver(nodes)
	slices.SortStableFunc(p.notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return nodes, p.notes
}

// Query translates what a mapping computes, such as a `check`, into one expression.
func Query(src string, o Options) (string, []Note) {
	p, list, err := prepare(src, o)
	if err != nil {
		e := syntaxError(err)
		return o.written("untranslated(" + quote(shortened(src)) + ")"), []Note{e.note()}
	}
	p.vars = map[string]*variableUse{}
	x := p.computed(list, p.env, 0)
	return o.written(x.text), p.notes
}

// Template translates a text with interpolations, ${! … }, into a template of flowd's, with $(…). Text around them is
// escaped so that it stays as it is.
func Template(src string, o Options) (string, []Note) {
	var b strings.Builder
	var notes []Note
	text := func(s string) {
		b.WriteString(o.written(strings.ReplaceAll(s, "$(", "$$(")))
	}
	for from := 0; ; {
		i := strings.Index(src[from:], "${")
		if i < 0 {
			text(src[from:])
			return b.String(), notes
		}
		at := from + i
		switch {
		case strings.HasPrefix(src[at:], "${{!"):
			end := strings.Index(src[at:], "}}")
			if end < 0 {
				text(src[from:])
				return b.String(), notes
			}
			text(src[from:at])
			text("${!" + src[at+4:at+end] + "}")
			from = at + end + 2
		case strings.HasPrefix(src[at:], "${!"):
			text(src[from:at])
			x, found, end := interpolation(src, at, o)
			notes = append(notes, found...)
			b.WriteString(x)
			from = end
		default:
			end := strings.IndexByte(src[at:], '}')
			if end < 0 {
				end = len(src) - at - 1
			}
			text(src[from : at+end+1])
			from = at + end + 1
		}
	}
}

// interpolation translates ${! … } and returns its end.
func interpolation(src string, at int, o Options) (string, []Note, int) {
	n, s, end, err := parseQuery(src, at+3)
	if err == nil && !strings.HasPrefix(src[end:], "}") {
		line, column := s.position(end)
		err = &SyntaxError{line, column, "the interpolation lacks its closing }"}
	}
	if err != nil {
		end := len(src)
		if i := strings.IndexByte(src[at:], '}'); i >= 0 {
			end = at + i + 1
		}
		e := syntaxError(err)
		return o.written("$(untranslated(" + quote(shortened(src[at:end])) + "))"), []Note{e.note()}, end
	}
	fillTables()
	t := &translator{o: o, src: s, vars: map[string]*variableUse{}}
	x := t.expr(n, &env{this: &meaning{what: theDocument}})
	return "$(" + o.written(x.text) + ")", t.notes, end + 1
}

// prepare parses a mapping and the files that it imports.
func prepare(src string, o Options) (*planner, []Statement, error) {
	m, err := Parse(src)
	if err != nil {
		return nil, nil, err
	}
	fillTables()
	t := &translator{o: o, src: m.src, maps: map[string]*namedMap{}, edits: o.Target == InPlace}
	p := &planner{translator: t, m: m, env: &env{this: &meaning{what: theDocument}}, taken: map[int]bool{}}
	list, err := p.imports(m, 0)
	return p, list, err
}

// imports reads the files that a mapping imports, and returns its statements, or those of the file that it is.
func (p *planner) imports(m *Mapping, depth int) ([]Statement, error) {
	for _, name := range slices.Sorted(maps.Keys(m.maps)) {
		p.maps[name] = m.maps[name]
	}
	list := m.Statements
	for _, s := range m.Statements {
		s, ok := s.(*imports)
		if !ok {
			continue
		}
		line, column := m.src.position(s.from)
		if p.o.Import == nil || depth > 20 {
			return nil, &SyntaxError{line, column, fmt.Sprintf("the file %q can't be imported here", s.path)}
		}
		text, err := p.o.Import(s.path)
		if err != nil {
			return nil, &SyntaxError{line, column, fmt.Sprintf("import %q: %v", s.path, err)}
		}
		other, err := Parse(text)
		if err != nil {
			return nil, &SyntaxError{line, column, fmt.Sprintf("%s: %v", s.path, err)}
		}
		inner, err := p.imports(other, depth+1)
		if err != nil {
			return nil, err
		}
		if s.whole {
			p.m, p.src = other, other.src
			list = inner
		}
	}
	return list, nil
}

func syntaxError(err error) *SyntaxError {
	if e := (*SyntaxError)(nil); errors.As(err, &e) {
		return e
	}
	return &SyntaxError{1, 1, err.Error()}
}

func (e *SyntaxError) note() Note {
	return Note{e.Line, e.Column, Untranslated, "This mapping can't be read: " + e.Problem + "."}
}

func shortened(s string) string {
	const most = 1000 // bytes that 60 letters and blanks around them have
	s = strings.Join(strings.Fields(s[:min(most, len(s))]), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// refused returns a step that lint refuses, for a mapping that can't be read.
func refused(src string, err error, o Options) ([]*yaml.Node, []Note) {
	n := syntaxError(err).note()
	op := operation{act: setRoot, x: whole("untranslated("+quote(shortened(src))+")", objectKind),
		head: []string{"Untranslated: " + n.Text}}
	return (&writer{o}).steps([]operation{op}), []Note{n}
}

// Environment lists the names of environment variables that expressions in a text read with env(), which engine.env
// must name.
func Environment(text string) []string {
	var names []string
	for _, m := range envCall().FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

var envCall = pattern(`\benv\(\\?"([^"\\]+)\\?"\)`)
