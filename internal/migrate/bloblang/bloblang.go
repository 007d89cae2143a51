// Package bloblang translates Bloblang, the mapping language of Benthos, Bento and Redpanda Connect, to flowd's
// language. Start at [Steps], which turns a mapping into steps, and at [Parse] for its syntax tree.
//
// A translation never guesses. Code without a counterpart becomes a call of a function that does not exist, so that
// lint reports the place, and a [Note] says why.
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
	// Untranslated marks code without a counterpart: lint reports an error in its place.
	Untranslated Kind = iota + 1
	// Differs marks code that runs, but may behave differently.
	Differs
)

// Note is what a person must know about a translation.
type Note struct {
	Line, Column int // in the source, from 1
	Kind         Kind
	Text         string // one sentence: the problem, and what to do
}

// Target says what a mapping changes.
type Target int

const (
	// NewDocument is the target of `mapping` and `bloblang`: fields that the mapping does not assign are removed.
	NewDocument Target = iota
	// InPlace is the target of `mutation` and of a branch's `result_map`: other fields stay.
	InPlace
)

// Options say where a mapping runs.
type Options struct {
	Target Target
	// This is the path of `this` in the steps' document, or empty for the document itself. The `result_map` of a
	// branch reads the result there.
	This string
	// Batch says that the steps run on a batch, so that functions such as batch_index() are defined.
	Batch bool
	// Unescaped keeps ${ unchanged, and writes [Dollar] for the dollar sign of a placeholder. Otherwise a ${ in a
	// text becomes $${. A run of private runes, U+100000 to U+1003FF, is always one operand, or a part of a text, and
	// stays unchanged: callers use it in place of a placeholder.
	Unescaped bool
	// Import reads the file of an `import` or `from`; nil: no files can be read.
	Import func(path string) (string, error)
}

// Steps translates a mapping to flowd's steps, each a YAML mapping node: set, map, unset, filter, meta, let, switch,
// fail. Comments of the mapping stay with their statements. A mapping that changes nothing gives no steps. An invalid
// mapping gives a single step that lint rejects, and a note with the error.
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

// Query translates a query, such as a `check`, to one expression.
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

// Template translates a text with interpolations, ${! … }, to a template with $(…). The other text is escaped so that
// it stays the same.
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

// interpolation translates a ${! … }, and returns its end.
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

// imports reads the imported files of a mapping. It returns its statements or, for `from`, those of the file.
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
	const most = 1000 // bytes: 60 letters with blanks around them
	s = strings.Join(strings.Fields(s[:min(most, len(s))]), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// refused returns a step that lint rejects, for an invalid mapping.
func refused(src string, err error, o Options) ([]*yaml.Node, []Note) {
	n := syntaxError(err).note()
	op := operation{act: setRoot, x: whole("untranslated("+quote(shortened(src))+")", objectKind),
		head: []string{"Untranslated: " + n.Text}}
	return (&writer{o}).steps([]operation{op}), []Note{n}
}

// Environment lists the environment variables that expressions in a text read with env(), which engine.env must name.
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
