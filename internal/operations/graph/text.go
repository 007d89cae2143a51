package graph

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is how many columns the drawing has at most. Longer lines end in an ellipsis; the table of routes wraps.
const width = 80

// Text draws the graph for a terminal of 80 columns, without colours.
func (g *Graph) Text() string {
	d := &drawing{}
	d.line("", "%s  %s", g.Pipeline, g.File)
	d.line("", "")
	for _, in := range g.Inputs {
		d.line("", "input %s (%s)%s", in.Name, in.Type, prefixed(": ", list(in.Steps)))
	}
	d.steps("│ ", g.Steps)
	for i, b := range g.Batchers {
		if b.Name == "" {
			g.outputs(d, "", b.Outputs, nil)
			continue
		}
		branch, below := fork(i, len(g.Batchers))
		d.line(branch, "batcher %s%s", b.Name, b.terms())
		d.steps(below+"│ ", b.Steps)
		g.outputs(d, below, b.Outputs, nil)
	}
	g.failures(d)
	d.line("", "")
	g.table(d)
	return d.String()
}

// terms says which messages a batcher takes.
func (b *Batch) terms() (text string) {
	text = prefixed(", if ", b.Match) + prefixed(", by ", b.Key)
	if b.Continue {
		text += "; later batchers get them, too"
	}
	return text
}

func (g *Graph) outputs(d *drawing, indent string, names, within []string) {
	for i, name := range names {
		branch, below := fork(i, len(names))
		o := g.output(name)
		if o == nil || len(within) > len(g.Outputs) { // a mistake that lint reports
			d.line(indent+branch, "output %s", name)
			continue
		}
		d.line(indent+branch, "output %s (%s)", name, o.Type)
		d.steps(indent+below+"│ ", o.Steps)
		g.outputs(d, indent+below, o.Members, append(within, name))
	}
}

// failures draws where failed messages go.
func (g *Graph) failures(d *drawing) {
	first := true
	draw := func(from, to string) {
		if to == "" {
			return
		}
		if first {
			d.line("", "")
		}
		first = false
		typ := ""
		if o := g.output(to); o != nil {
			typ = " (" + o.Type + ")"
		}
		d.line("", "%s ──► output %s%s", from, to, typ)
	}
	draw("failed messages", g.Failed)
	for _, o := range g.Outputs {
		draw("failed messages of output "+o.Name, o.Failed)
	}
}

// table writes the guarantee and the order of each route.
func (g *Graph) table(d *drawing) {
	names, longest := make([]string, len(g.Routes)), len("route")
	for i, r := range g.Routes {
		names[i] = strings.Join(nonEmpty(r.Input, r.Batcher, r.Output), " → ")
		longest = min(max(longest, utf8.RuneCountInString(names[i])), width/2)
	}
	d.line("", "%-*s  %-13s  %s", longest, "route", "guarantee", "order")
	for i, r := range g.Routes {
		d.line("", "%-*s  %-13s  %s", longest, names[i], r.Guarantee, r.Order)
	}
}

func nonEmpty(all ...string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

// fork returns what stands before the i-th of n branches, and before the lines below it.
func fork(i, n int) (branch, below string) {
	if i == n-1 {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

type drawing struct{ strings.Builder }

// line writes a line, which ends in an ellipsis if it is too long.
func (d *drawing) line(indent, format string, args ...any) {
	text := strings.TrimRight(strings.Map(visible, indent+fmt.Sprintf(format, args...)), " ")
	if utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width-1]) + "…"
	}
	d.WriteString(text + "\n")
}

// visible replaces characters that could control a terminal.
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return ' '
	case unicode.IsPrint(r):
		return r
	}
	return unicode.ReplacementChar
}

// steps writes the names of steps, as many in a line as fit.
func (d *drawing) steps(indent string, names []string) {
	line := ""
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if line != "" && utf8.RuneCountInString(indent+line)+1+utf8.RuneCountInString(name) > width {
			d.line(indent, "%s", line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+name, " ")
	}
	if line != "" {
		d.line(indent, "%s", line)
	}
}
