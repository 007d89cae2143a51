package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Params are the parameters in force at a [Node] and below it: ${param.NAME} refers to one. They must not change once
// something has been decoded with them. Their JSON contains what another process needs.
type Params struct {
	Of    string           // the list of steps that declares them
	By    map[string]Param // by name
	Outer *Params          `json:",omitempty"` // in force where the values were written

	Defines bool `json:"-"` // of a definition, which is checked but does not run
}

// Param is one parameter with its value.
type Param struct {
	Value *Node     // nil: no value here, as in a definition; what depends on it is not checked
	As    ParamType // what the value is
	Bare  bool      `json:",omitempty"` // a default, for which no parameters are in force
}

// ParamType says what the value of a parameter is.
type ParamType uint8

// The types of parameters.
const (
	// AsValue is a text, number or the like: a literal in an expression, and text elsewhere.
	AsValue ParamType = iota
	// AsPath is a path: code in an expression, and the path's text elsewhere.
	AsPath
	// AsCode is an expression, for use in expressions.
	AsCode
)

// paramPrefix begins the placeholders of parameters.
const paramPrefix = "param."

// maxParam bounds the text of a parameter's value, in bytes: values made of other values could double each time.
const maxParam = 1 << 20

// param returns the piece for a placeholder of a parameter. body is the placeholder without braces, at an offset of
// the text.
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
		r.d.errors++ // no report: it is checked where there is a value
		return piece
	}
	pieces, ok := r.d.given(p, in)
	if !ok { // already reported
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

// given resolves the value of a parameter with the parameters in force where it was written.
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

// inQuotes reports whether a value was written as text in quotes that were not only needed for the braces of a
// placeholder.
func inQuotes(n *Node, pieces []Piece) bool {
	if len(pieces) == 1 && pieces[0].Placeholder {
		return pieces[0].Quoted
	}
	return n.Kind == TextNode && n.Style != Plain
}

// Bind copies n, which replaces the value being decoded, with parameters in force. In keys they are resolved now, in
// values when those are decoded.
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

// Bound returns n with the current parameters in force, for decoding it later or elsewhere.
func (d *Decoder) Bound(n *Node) *Node {
	if d.params == nil || n == nil {
		return n
	}
	c := *n
	c.Params = d.params
	return &c
}

// Params returns the parameters in force, or nil.
func (d *Decoder) Params() *Params { return d.params }

// bindKey resolves the parameters in a key. Their values must be names: only a path may add structure to a path.
func (d *Decoder) bindKey(key *Node, path string) *Node {
	if !strings.Contains(key.Text, "${"+paramPrefix) {
		return key
	}
	c := *key
	pieces, ok := d.Code(&c)
	for _, p := range pieces {
		switch {
		case !ok || p.Placeholder && !strings.HasPrefix(p.Source, "${"+paramPrefix):
			return key // d.keys reports it, as for an expression
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

// openKey reports whether a key depends on parameters without a value, as in a definition. Its problems have been
// reported.
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

// shownAs returns a scalar's text as in force: parameters are resolved, unless they are secret; other placeholders
// stay.
func (d *Decoder) shownAs(n *Node) string {
	if text, ok := d.shown[n]; ok {
		return text
	}
	known, ok := d.resolved[n]
	if !ok || !known.ok || !slices.ContainsFunc(known.pieces, Piece.param) {
		return n.Text // it may be that of a definition
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

// ShowAs makes Dump show a text for a scalar: its field knows how it reads parameters.
func (d *Decoder) ShowAs(n *Node, text string) { d.shown[n] = text }

// param reports whether a piece comes from a parameter.
func (p Piece) param() bool { return p.Placeholder && strings.HasPrefix(p.Source, "${"+paramPrefix) }

// originOf returns the origin of a value with that of its parameters: "p.yaml:9, field from p.yaml:4".
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
