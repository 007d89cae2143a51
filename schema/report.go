package schema

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Report adds a problem. If they are empty, it fills in Pos (from the caret, else from n), Path and, for a problem
// with a Caret, Excerpt.
func (d *Decoder) Report(n *Node, p Problem) {
	p.Pos = cmp.Or(p.Pos, p.Caret)
	if n != nil {
		p.Pos = cmp.Or(p.Pos, n.Pos)
		if p.Path == "" {
			p.Path = d.pathOf(n)
		}
		if p.Excerpt == "" && p.Caret != (Pos{}) && n.Excerpt != nil {
			p.Excerpt = n.Excerpt(p.Caret)
		}
	}
	d.add(p)
}

// report adds a problem of the value being decoded, at n.
func (d *Decoder) report(n *Node, code, message, remedy string) {
	d.add(Problem{Pos: n.Pos, Path: d.at.path, Code: code, Message: message, Remedy: remedy})
}

func (d *Decoder) add(p Problem) {
	if !p.Warning {
		d.errors++
	}
	d.problems = append(d.problems, p)
}

// wrong reports that n does not look like a value of this shape.
func (d *Decoder) wrong(n *Node, s *shape, remedy string) {
	d.report(n, WrongKind, "expected "+s.expected()+", got "+n.Kind.String(), remedy)
}

// Problems returns all problems so far, in the order found. Secrets are masked.
func (d *Decoder) Problems() []Problem {
	problems := slices.Clone(d.problems)
	for i := range problems {
		p := &problems[i]
		p.Message, p.Remedy = d.secrets.Mask(p.Message), d.secrets.Mask(p.Remedy)
		p.Excerpt = d.masked(p.Excerpt)
	}
	return problems
}

// Secrets returns the texts that d masks in problems and in Dump. More may be added.
func (d *Decoder) Secrets() *Secrets { return d.secrets }

// Hide makes d add the secrets that it finds to s, unless s is nil. Call it before decoding.
func (d *Decoder) Hide(s *Secrets) { d.secrets = cmp.Or(s, d.secrets) }

// hideAll masks all texts at and below n that may be secrets.
func (d *Decoder) hideAll(n *Node) {
	if len(n.Text) >= shortSecret {
		d.secrets.Add(n.Text)
	}
	for _, item := range n.Items {
		d.hideAll(item)
	}
}

// Show adds the source line to a problem that has none, with secrets masked.
func (d *Decoder) Show(p Problem, line string) Problem {
	if p.Excerpt != "" || p.Pos.Line == 0 {
		p.Excerpt = d.masked(p.Excerpt)
		return p
	}
	p.Excerpt, p.Caret = d.masked(line), p.Pos
	return p
}

// masked masks secrets in a source line, and keeps its width: carets stay right.
func (d *Decoder) masked(line string) string {
	return d.secrets.replace(line, func(secret string) string {
		return strings.Repeat("*", utf8.RuneCountInString(secret))
	})
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
