package schema

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Report adds a problem. Where they are empty, Pos is filled in (the caret's,
// else n's), Path, and, for a problem with a Caret, Excerpt.
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

// report adds a problem, at n, of what is being decoded.
func (d *Decoder) report(n *Node, code, message, remedy string) {
	d.add(Problem{Pos: n.Pos, Path: d.at.path, Code: code, Message: message, Remedy: remedy})
}

func (d *Decoder) add(p Problem) {
	if !p.Warning {
		d.errors++
	}
	d.problems = append(d.problems, p)
}

// wrong reports that n is not what a value of this shape looks like.
func (d *Decoder) wrong(n *Node, s *shape, remedy string) {
	d.report(n, WrongKind, "expected "+s.expected()+", got "+n.Kind.String(), remedy)
}

// Problems are all problems so far, in the order found. No secret shows in
// them, whoever reported them.
func (d *Decoder) Problems() []Problem {
	problems := slices.Clone(d.problems)
	for i := range problems {
		p := &problems[i]
		p.Message, p.Remedy = d.secrets.Mask(p.Message), d.secrets.Mask(p.Remedy)
		p.Excerpt = d.masked(p.Excerpt)
	}
	return problems
}

// Secrets are the texts that d keeps out of all problems, and out of Dump. They may be
// added to.
func (d *Decoder) Secrets() *Secrets { return d.secrets }

// Hide has d add the secrets that it meets to s, unless that is nil. It is called before
// anything is decoded.
func (d *Decoder) Hide(s *Secrets) { d.secrets = cmp.Or(s, d.secrets) }

// hideAll keeps all texts at and below n out of problems, as far as they may be secrets.
func (d *Decoder) hideAll(n *Node) {
	if len(n.Text) >= shortSecret {
		d.secrets.Add(n.Text)
	}
	for _, item := range n.Items {
		d.hideAll(item)
	}
}

// Show adds to a problem the source line that it is about, unless it has one;
// what has to be hidden is masked.
func (d *Decoder) Show(p Problem, line string) Problem {
	if p.Excerpt != "" || p.Pos.Line == 0 {
		p.Excerpt = d.masked(p.Excerpt)
		return p
	}
	p.Excerpt, p.Caret = d.masked(line), p.Pos
	return p
}

// masked is a source line without secrets, as wide as it was: carets stay right.
func (d *Decoder) masked(line string) string {
	return d.secrets.replace(line, func(secret string) string {
		return strings.Repeat("*", utf8.RuneCountInString(secret))
	})
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
