package schema

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// record decodes a struct.
func (d *Decoder) record(n *Node, v reflect.Value, s *shape) {
	before := d.errors
	d.fill(v, s)
	for _, index := range s.places {
		v.FieldByIndex(index).Set(reflect.ValueOf(d.Place(n)))
	}
	r := &recordDecoder{Decoder: d, n: n, v: v, s: s, written: map[*field]*Node{}, meant: map[string]bool{}}
	switch {
	case n.Kind == NullNode:
		r.finish()
	case n.Kind == MapNode && !r.inShort():
		r.keys()
		r.finish()
	case r.pick():
		r.finish()
	case s.main != nil:
		d.short[shortForm{d.at.path, s}] = true
		d.noteShort(Short{Field: s.main.name})
		r.assign(s.main, d.at.key, n, d.at.path)
		r.finish()
	default:
		r.refuse()
		return
	}
	switch {
	case d.errors == before:
		r.rules(r.v, r.complain)
	case s.variant == nil:
		r.checkPartly()
	}
}

// Short describes a value in short form.
type Short struct {
	Field string // the field that it sets
	Word  bool   // it only names the field: `decode: json`
}

// ShortAt returns the short form that was written at a path, among the values decoded so far.
func (d *Decoder) ShortAt(path string) (Short, bool) {
	s, ok := d.shorts[path]
	return s, ok
}

func (d *Decoder) noteShort(s Short) {
	if _, outer := d.shorts[d.at.path]; !outer {
		d.shorts[d.at.path] = s
	}
}

// recordDecoder decodes one struct.
type recordDecoder struct {
	*Decoder
	n       *Node
	v       reflect.Value
	s       *shape
	written map[*field]*Node // the keys that are set; the node itself for a short form
	meant   map[string]bool  // fields that a misspelt key probably means
	typed   bool             // the type key is there
	unsures []*field         // fields whose values are not what was meant
	strange bool             // some keys may mean any field
}

// inShort reports whether a mapping is the struct's main field in short form. The struct's own form takes precedence.
func (r *recordDecoder) inShort() bool {
	main := r.s.main
	if main == nil || len(r.n.Keys) == 0 || !main.shape.takesMap() {
		return false
	}
	unknown := func(k *Node) bool { return r.s.by[k.Text] == nil }
	inner := main.shape.pointed()
	if inner.kind != recordKind {
		return slices.ContainsFunc(r.n.Keys, unknown)
	}
	known := func(k *Node) bool { return r.s.by[k.Text] != nil }
	return !slices.ContainsFunc(r.n.Keys, known) &&
		slices.ContainsFunc(r.n.Keys, func(k *Node) bool { return inner.by[k.Text] != nil })
}

// keys decodes the fields of a mapping.
func (r *recordDecoder) keys() {
	var unknown []*Node
	types := map[*Node]*Node{}
	for i, key := range r.Decoder.keys(r.n) {
		written := r.n.Keys[i]
		if written.param || key == nil && r.params != nil && strings.Contains(written.Text, "${"+paramPrefix) {
			r.report(written, PlaceholderInKey, "a parameter can't choose a field", "write the field itself")
			r.typed, r.strange = true, true // it may be the type key
			continue
		}
		if key == nil {
			meant := r.s.by[written.Text]
			r.unsure(meant)
			r.strange = r.strange || meant == nil
			continue
		}
		item := r.n.Items[i]
		f := r.s.by[key.Text]
		switch {
		case f == nil:
			unknown = append(unknown, key)
			types[key] = item
		case item.Kind == NullNode && f.group == "": // as if not set
		default:
			r.assign(f, key, item, Join(r.at.path, key.Text))
		}
	}
	if r.s.variant != nil {
		unknown = r.variant(unknown, types)
	}
	if len(unknown) == 0 {
		return
	}
	names, words := r.s.names(), r.s.words()
	for _, key := range unknown {
		if r.s.secretive() {
			r.hideAll(types[key])
		}
		near := Nearest(key.Text, names)
		r.meant[near] = true
		r.unsure(r.s.by[near])
		r.strange = r.strange || near == ""
		remedy := cmp.Or(words[key.Text], r.elsewhere(key.Text), didYouMean(key.Text, names), r.s.otherType(key.Text), known(names))
		r.report(key, UnknownField, "unknown field "+strconv.Quote(key.Text), remedy)
	}
}

// otherType is the remedy for a type of another system beside one of this kind, or "".
func (s *shape) otherType(key string) string {
	if s.variant == nil {
		return ""
	}
	return s.variants().Remedy(key)
}

// known lists what may be written, if that is short.
func known(names []string) string {
	switch {
	case len(names) == 0:
		return "it takes no settings"
	case len(names) > 12:
		return ""
	}
	return "known here: " + strings.Join(names, ", ")
}

// pick decodes a single word that names a choice: `decode: json`.
func (r *recordDecoder) pick() bool {
	if len(r.s.groups) == 0 || !r.n.scalar() {
		return false
	}
	pieces, _ := r.resolve(r.n)
	f := r.s.by[joined(pieces)]
	if f == nil || f.group == "" {
		return false
	}
	r.noteShort(Short{Field: f.name, Word: true})
	nothing := *r.n
	nothing.Kind, nothing.Text = NullNode, ""
	r.assign(f, r.at.key, &nothing, r.at.path)
	return true
}

// refuse reports a value that is neither a mapping nor a short form.
func (r *recordDecoder) refuse() {
	if !r.n.scalar() || len(r.s.groups) == 0 {
		r.wrong(r.n, r.s, r.asMapping())
		return
	}
	pieces, ok := r.resolve(r.n)
	if !ok {
		return
	}
	var names []string
	for _, g := range r.s.groups {
		names = append(names, g.names()...)
	}
	remedy, word := "", quoted(r.n, pieces, r.s)
	switch {
	case r.s.secretive():
		r.hideAll(r.n)
		word, remedy = "the value", fmt.Sprintf("write {%s: …}", names[0])
	case !concealed(pieces):
		remedy = didYouMean(joined(pieces), names)
	}
	r.report(r.n, BadValue, word+" is not one of "+strings.Join(names, ", "), remedy)
}

// assign decodes one field.
func (r *recordDecoder) assign(f *field, key, item *Node, path string) {
	at := cmp.Or(key, item)
	r.written[f] = at
	v := r.v.FieldByIndex(f.index)
	if f.group != "" {
		r.clear(f)
	}
	defer func(before int) {
		if r.errors > before {
			r.unsure(f)
		}
	}(r.errors)
	r.inside(&frame{key: key, node: item, path: path, field: f}, func() {
		if item.Kind == NullNode && f.group != "" && f.shape.elem.kind != recordKind && !f.shape.elem.takesNull() {
			r.report(at, WrongKind, fmt.Sprintf("%s needs a value: %s", f.name, f.shape.expected()),
				fmt.Sprintf("write {%s: …}", f.name))
			return
		}
		before := r.errors
		r.value(item, v, f.shape)
		if f.check.nonempty && r.errors == before && empty(v, f.shape) {
			r.report(item, BadValue, "must not be empty", "")
		}
		if f.pending != "" {
			r.add(Problem{
				Pos: at.Pos, Path: path, Code: Pending,
				Message: f.name + " has no effect in this version", Remedy: "remove it: " + f.pending + " come later",
			})
		}
	})
}

// clear unsets the other choices of f's group, one of which may be the default.
func (r *recordDecoder) clear(f *field) {
	for _, other := range r.s.list {
		if other.group == f.group && other != f && r.written[other] == nil {
			r.v.FieldByIndex(other.index).SetZero()
		}
	}
}

// finish checks the struct as a whole.
func (r *recordDecoder) finish() {
	if r.s.variant != nil && !r.typed && !r.s.optional {
		r.missingType()
	}
	for i := range r.s.groups {
		r.group(&r.s.groups[i])
	}
	for _, f := range r.s.list {
		if !f.check.required || r.written[f] != nil || r.meant[f.name] {
			continue
		}
		remedy := "add `" + f.name + ": …`"
		if f == r.s.main && r.at.key != nil {
			remedy = "write `" + r.at.key.Text + ": …`"
		}
		at := cmp.Or(r.n.keyOf(f.name), r.at.key, r.n)
		r.unsure(f)
		r.add(Problem{Pos: at.Pos, Path: Join(r.at.path, f.name), Code: Required, Message: "required", Remedy: remedy})
	}
}

// group checks that exactly one choice was made.
func (r *recordDecoder) group(g *group) {
	defer func(before int) {
		for _, f := range g.members {
			if r.errors > before {
				r.unsure(f)
			}
		}
	}(r.errors)
	var chosen []*field
	for _, f := range g.members {
		if r.written[f] != nil {
			chosen = append(chosen, f)
		}
	}
	switch {
	case len(chosen) > 1:
		slices.SortFunc(chosen, func(a, b *field) int { return r.order(a) - r.order(b) })
		a, b := chosen[0], chosen[1]
		r.report(r.written[b], TwoChoices, fmt.Sprintf("%q and %q%s exclude each other", b.name, a.name,
			lineOf(r.written[a].Pos)), "keep one")
	case len(chosen) == 1 || g.optional:
	case slices.ContainsFunc(g.members, func(f *field) bool {
		return r.meant[f.name] || !r.v.FieldByIndex(f.index).IsNil()
	}):
	default:
		r.report(cmp.Or(r.at.key, r.n), MissingChoice, "needs one of "+strings.Join(g.names(), ", "),
			g.example(r.at.key))
	}
}

// order returns the index of a field's key.
func (r *recordDecoder) order(f *field) int { return slices.Index(r.n.Keys, r.written[f]) }

// lineOf mentions the place of something else in a message.
func lineOf(p Pos) string {
	if p.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d:%d)", p.Line, p.Col)
}

// complain reports a problem that a rule found. path begins at the struct.
func (r *recordDecoder) complain(path, message, remedy string) {
	at, full, below := cmp.Or(r.at.key, r.n), r.at.path, r.n
	for name := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '.' }) {
		full = Join(full, name)
		if key := below.keyOf(name); key != nil {
			at, below = key, below.Lookup(name)
		}
	}
	r.add(Problem{Pos: at.Pos, Path: full, Code: BadValue, Message: message, Remedy: remedy})
}

// rules runs the rules of struct v and its inlined structs.
func (r *recordDecoder) rules(v reflect.Value, report func(path, message, remedy string)) {
	called := map[string]bool{}
	run := func(v reflect.Value, index []int) {
		if c, ok := v.Addr().Interface().(Checker); ok {
			c.CheckConfig(report)
			called[fmt.Sprint(index)] = true
		}
	}
	run(v, []int{})
	for _, in := range r.s.inlined {
		outer := fmt.Sprint(in.index[:len(in.index)-1])
		if v := v.FieldByIndex(in.index); in.embedded && called[outer] {
			called[fmt.Sprint(in.index)] = true // promoted, or called by the outer struct
		} else if v.Addr().CanInterface() {
			run(v, in.index)
		}
	}
}

// fill sets zero fields to the default in their tag, in this struct and in those that it contains.
func (d *Decoder) fill(v reflect.Value, s *shape) {
	if s.kind != recordKind {
		return
	}
	for _, f := range s.list {
		fv := v.FieldByIndex(f.index)
		if f.def == "" {
			d.fill(fv, f.shape)
			continue
		}
		if !fv.IsZero() {
			continue
		}
		n := &Node{Kind: TextNode, Text: f.def}
		at := &frame{node: n, path: f.name, field: f}
		if d.at != nil {
			at.path = Join(d.at.path, f.name)
		}
		d.inside(at, func() { d.value(n, fv, f.shape) })
	}
}
