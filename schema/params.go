package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Params are the parameters that are in force at a [Node] and below it: ${param.NAME} is one
// of them. They do not change once something has been decoded with them. In JSON they have
// what another process needs.
type Params struct {
	Of    string           // the list of steps that has them
	By    map[string]Param // by name
	Outer *Params          `json:",omitempty"` // those in force where the values were written

	Defines bool `json:"-"` // they are those of a definition, which is judged but does not run
}

// Param is one parameter with its value.
type Param struct {
	Value *Node     // nil: it has none here, as in a definition; what depends on it is then not judged
	As    ParamType // what the value is
	Bare  bool      `json:",omitempty"` // it is a default, for which no parameters are in force
}

// ParamType says what the value of a parameter is.
type ParamType uint8

// The types of parameters.
const (
	// AsValue is a text, a number or the like: a literal in an expression, and text elsewhere.
	AsValue ParamType = iota
	// AsPath is a path: what stands there in an expression, and the path's text elsewhere.
	AsPath
	// AsCode is an expression, for use in expressions.
	AsCode
)

// paramPrefix is what the placeholders of parameters begin with.
const paramPrefix = "param."

// maxParam bounds the text of a parameter's value, in bytes: values that are made of others
// could double with each of them.
const maxParam = 1 << 20

// param is the piece that a placeholder of a parameter becomes; body is the placeholder
// without its braces, at an offset in the text.
func (r *resolver) param(body string, offset int) Piece {
	piece := Piece{Offset: offset, Placeholder: true, Source: "${" + body + "}"}
	complain := func(message, remedy string) Piece {
		r.complain(offset, BadPlaceholder, piece.Source+" "+message, remedy)
		return piece
	}
	name := strings.TrimPrefix(body, paramPrefix)
	in := r.d.params
	if in == nil {
		return complain("names a parameter, and there are none here", "parameters belong to the lists of resources.steps")
	}
	p, ok := in.By[name]
	switch {
	case !ok && strings.Contains(name, ":"):
		return complain("can't have a default here", "write it as the `default` of the parameter")
	case !ok:
		return complain("names no parameter of steps "+in.Of,
			Suggest(name, slices.Sorted(maps.Keys(in.By)), fmt.Sprintf("declare %q under `parameters`", name)))
	case p.Value == nil:
		piece.CodeOnly = p.As == AsCode
		r.d.errors++ // silently: it is judged where there is a value
		return piece
	}
	pieces, ok := r.d.given(p, in)
	if !ok { // it is reported
		r.d.errors++
		return piece
	}
	piece.Text, piece.Secret = joined(pieces), concealed(pieces)
	if len(piece.Text) > maxParam {
		return complain("is longer than 1 MiB with all that it is made of", "write a shorter value")
	}
	switch p.As {
	case AsValue:
		piece.Quoted = inQuotes(p.Value, pieces)
	case AsPath:
		piece.Code = []Piece{{Text: piece.Text}}
	case AsCode:
		if len(pieces) == 1 && pieces[0].CodeOnly { // it is only passed on
			pieces = pieces[0].Code
		}
		piece.Code, piece.CodeOnly = pieces, true
	}
	return piece
}

// given resolves the value of a parameter with what is in force where it was written.
func (d *Decoder) given(p Param, of *Params) (pieces []Piece, ok bool) {
	was := d.params
	defer func() { d.params = was }()
	if d.params = of.Outer; p.Bare {
		d.params = nil
	}
	if p.As == AsCode || p.As == AsPath {
		return d.Code(p.Value)
	}
	return d.resolve(p.Value)
}

// inQuotes reports whether a value was written as text, in quotes that were not only needed
// for the braces of a placeholder.
func inQuotes(n *Node, pieces []Piece) bool {
	if len(pieces) == 1 && pieces[0].Placeholder {
		return pieces[0].Quoted
	}
	return n.Kind == TextNode && n.Style != Plain
}

// Bind is a copy of n, which stands in the place of what is being decoded, with parameters in
// force: in keys they are replaced, in values when those are decoded.
func (d *Decoder) Bind(n *Node, p *Params) *Node {
	was := d.params
	defer func() { d.params = was }()
	d.params = p
	bound := d.bind(n, d.at.path)
	bound.Params = p
	return bound
}

func (d *Decoder) bind(n *Node, path string) *Node {
	c := *n
	c.Keys, c.Items = slices.Clone(n.Keys), slices.Clone(n.Items)
	for i, item := range c.Items {
		below := path + "[" + strconv.Itoa(i) + "]"
		if i < len(c.Keys) {
			c.Keys[i] = d.bindKey(c.Keys[i], path)
			below = Join(path, c.Keys[i].Text)
		}
		c.Items[i] = d.bind(item, below)
	}
	return &c
}

// Bound is n with the parameters in force that are in force now, for who decodes it later or
// elsewhere.
func (d *Decoder) Bound(n *Node) *Node {
	if d.params == nil || n == nil {
		return n
	}
	c := *n
	c.Params = d.params
	return &c
}

// Params are those in force, or nil.
func (d *Decoder) Params() *Params { return d.params }

// bindKey is a key with its parameters replaced. Values must be names: only a path adds
// structure to a path.
func (d *Decoder) bindKey(key *Node, path string) *Node {
	if !strings.Contains(key.Text, "${"+paramPrefix) {
		return key
	}
	c := *key
	pieces, ok := d.Code(&c)
	for _, p := range pieces {
		switch {
		case !ok || p.Placeholder && !strings.HasPrefix(p.Source, "${"+paramPrefix):
			return key // of which d.keys complains, as of an expression
		case p.CodeOnly:
			return key
		case p.Placeholder && p.Code == nil && !plainName(p.Text):
			d.Report(key, Problem{Code: BadPlaceholder, Pos: key.At(p.Offset), Path: path,
				Message: fmt.Sprintf("%q (from %s) is not a name of letters, digits, _ and -, as a key needs it", p.Text, p.Source),
				Remedy:  "a parameter that is a path is declared with `type: path`"})
		}
	}
	c.Text, c.Offset, c.param = joined(pieces), func(int) Pos { return key.Pos }, true
	return &c
}

func plainName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r != '_' && r != '-' && !isLetter(r) })
}

// openKey reports whether a key waits for the values of parameters: it is that of a definition.
// What is wrong with it has been reported.
func (d *Decoder) openKey(key *Node) bool {
	if d.params == nil || !strings.Contains(key.Text, "${"+paramPrefix) {
		return false
	}
	for rest := key.Text; ; {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		if rest = rest[i:]; !strings.HasPrefix(rest, "${"+paramPrefix) {
			return false
		}
		rest = rest[len("${"):]
	}
	pieces, _ := d.Code(key)
	for _, p := range pieces {
		if p.CodeOnly {
			d.Report(key, Problem{Code: BadPlaceholder, Pos: key.At(p.Offset), Path: d.at.path,
				Message: p.Source + " is an expression, which can't be part of a key",
				Remedy:  "declare it with `type: path`, or `type: value` for a name"})
		}
	}
	d.errors++
	return true
}

// shownAs is a scalar's text as it is in force: parameters are replaced, as far as they may
// be seen; other placeholders are as they were written.
func (d *Decoder) shownAs(n *Node) string {
	if text, ok := d.shown[n]; ok {
		return text
	}
	known, ok := d.resolved[n]
	if !ok || !known.ok || !slices.ContainsFunc(known.pieces, Piece.param) {
		return n.Text // or it is that of a definition
	}
	var b strings.Builder
	for _, p := range known.pieces {
		switch {
		case p.param() && !p.Secret:
			b.WriteString(p.Text)
		case p.Source != "":
			b.WriteString(p.Source)
		default:
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// ShowAs has Dump show a scalar as it is in force: its field knows how parameters read in it.
func (d *Decoder) ShowAs(n *Node, text string) { d.shown[n] = text }

// param reports whether a piece is from a parameter.
func (p Piece) param() bool { return p.Placeholder && strings.HasPrefix(p.Source, "${"+paramPrefix) }

// originOf is where a value is from, with that of the parameters in it: "p.yaml:9, field from
// p.yaml:4".
func (d *Decoder) originOf(n *Node, params *Params) Origin {
	o := Origin{Pos: n.Pos, Text: n.Origin, node: n}
	if params == nil || o.Text != "" || !strings.Contains(n.Text, "${"+paramPrefix) {
		return o
	}
	text := o.String()
	for _, name := range slices.Sorted(maps.Keys(params.By)) {
		if p := params.By[name]; p.Value != nil && strings.Contains(n.Text, "${"+paramPrefix+name+"}") {
			text += ", " + name + " from " + Origin{Pos: p.Value.Pos, Text: p.Value.Origin}.String()
		}
	}
	o.Text = text
	return o
}
