package schema

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Origin says where a value comes from. The zero Origin is a default.
type Origin struct {
	Pos  Pos
	Text string // "override" and the like, if it does not come from a file
	node *Node  // the value as written
}

// String returns file:line, "override", or "default".
func (o Origin) String() string {
	switch {
	case o.Text != "":
		return o.Text
	case o.Pos.File != "":
		return fmt.Sprintf("%s:%d", o.Pos.File, o.Pos.Line)
	case o.Pos.Line > 0:
		return fmt.Sprintf("line %d", o.Pos.Line)
	}
	return "default"
}

// Lookup returns the function that resolves placeholders.
func (d *Decoder) Lookup() Lookup { return d.lookup }

// Origins returns the origins of the values that were written, by path. A missing path has its default.
func (d *Decoder) Origins() map[string]Origin { return d.origins }

// Shower is a config type that Dump shows in another form, with a comment on its first line. A nil value is shown
// unchanged.
type Shower interface {
	ShowConfig() (instead any, comment string)
}

// note records the origin of the current value.
func (d *Decoder) note(n *Node) {
	if n.Pos == (Pos{}) && n.Origin == "" {
		return
	}
	if d.origins == nil {
		d.origins = map[string]Origin{}
	}
	d.origins[d.at.path] = d.originOf(n, d.params)
}

// Dump formats a decoded value as YAML, with a comment on each line that names the value's origin. Secrets are
// masked.
func (d *Decoder) Dump(v any) string {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return ""
	}
	w := dumper{d: d}
	w.value(settable(rv), describe(rv.Type()), "", "", "")
	return w.text()
}

// component is the type that was chosen at a path.
type component struct {
	name   string
	config any
}

// shortForm is a struct that was written as its main field.
type shortForm struct {
	path  string
	shape *shape
}

// dumper collects lines, each with its comment.
type dumper struct {
	d     *Decoder
	lines [][2]string
	lead  string // beginning of the next line: the dash of a list's item
}

func (w *dumper) line(indent, text, comment string) {
	if w.lead != "" {
		indent = w.lead
		w.lead = ""
	}
	w.lines = append(w.lines, [2]string{indent + text, comment})
}

func (w *dumper) text() string {
	width := 0
	for _, l := range w.lines {
		if n := len([]rune(l[0])); l[1] != "" && n <= 60 {
			width = max(width, n)
		}
	}
	var b strings.Builder
	for _, l := range w.lines {
		text := w.d.secrets.Mask(l[0])
		if l[1] != "" {
			text += strings.Repeat(" ", max(0, width-len([]rune(text)))) + "  # " + l[1]
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// value writes the value of key: on the key's line if it is one value, otherwise below it. An empty key writes the
// inside of a mapping.
func (w *dumper) value(v reflect.Value, s *shape, indent, key, path string) {
	head := headOf(key)
	if shower, ok := v.Interface().(Shower); ok {
		if instead, comment := shower.ShowConfig(); instead != nil {
			at := len(w.lines)
			shown := settable(reflect.ValueOf(instead))
			w.value(shown, describe(shown.Type()), indent, key, path)
			if len(w.lines) > at && w.lines[at][1] == "" {
				w.lines[at][1] = comment
			}
			return
		}
	}
	switch s.kind {
	case pointerKind:
		if v.IsNil() {
			return
		}
		w.value(v.Elem(), s.elem, indent, key, path)
	case recordKind:
		w.open(indent, head, func(below string) { w.record(v, s, below, path) })
	case mapKind:
		w.open(indent, head, func(below string) {
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, k := range keys {
				w.value(settable(v.MapIndex(k)), s.elem, below, k.String(), Join(path, k.String()))
			}
		})
	case orderedKind:
		w.open(indent, head, func(below string) {
			v.Addr().Interface().(ordered).each(func(k string, item reflect.Value) {
				w.value(item, s.elem, below, k, Join(path, k))
			})
		})
	case listKind:
		w.list(v, s, indent, head, path)
	case rawKind:
		if n, _ := v.Interface().(*Node); n != nil {
			w.node(n, indent, key)
		}
	case customKind:
		switch n := w.d.origins[path].node; {
		case n != nil && (!n.scalar() || printed(v) == ""):
			w.node(n, indent, key)
		case v.Kind() == reflect.Slice: // a list with a form of its own
			w.list(v, &shape{kind: listKind, elem: describe(v.Type().Elem())}, indent, head, path)
		default:
			w.scalar(v, s, indent, head, path)
		}
	default:
		w.scalar(v, s, indent, head, path)
	}
}

// headOf returns a key as its line begins, or "".
func headOf(key string) string {
	if key == "" {
		return ""
	}
	return plainText(key) + ":"
}

// node writes a value as it was written, for types that only they can read. Placeholders stay.
func (w *dumper) node(n *Node, indent, key string) {
	head := headOf(key)
	switch n.Kind {
	case MapNode:
		w.open(indent, head, func(below string) {
			for i, k := range n.Keys {
				w.node(n.Items[i], below, k.Text)
			}
		})
	case ListNode:
		w.open(indent, head, func(below string) {
			for _, item := range n.Items {
				w.lead = below + "- "
				w.node(item, below+"  ", "")
				w.lead = ""
			}
		})
	default:
		w.line(indent, strings.TrimSpace(head+" "+plainText(w.d.shownAs(n))),
			w.d.originOf(n, w.d.resolved[n].params).String())
	}
}

// open writes the key of a mapping or list, and its content if there is any.
func (w *dumper) open(indent, head string, inside func(below string)) {
	if head == "" {
		inside(indent)
		return
	}
	lead, before := w.lead, len(w.lines)
	w.line(indent, head, "")
	inside(indent + "  ")
	if len(w.lines) == before+1 {
		w.lead, w.lines = lead, w.lines[:before]
	}
}

func (w *dumper) list(v reflect.Value, s *shape, indent, head, path string) {
	if v.Len() == 0 {
		return
	}
	w.open(indent, head, func(below string) {
		for i := range v.Len() {
			before, at := len(w.lines), fmt.Sprintf("%s[%d]", path, i)
			if from, ok := w.d.origins[path]; ok && (from.node == nil || from.node.scalar()) {
				w.d.origins[at] = from // of a list that was written as its only item, or inherited
			}
			w.lead = below + "- "
			w.value(v.Index(i), s.elem, below+"  ", "", at)
			if len(w.lines) == before {
				w.line(below, "{}", "")
			}
			w.lead = ""
		}
	})
}

func (w *dumper) record(v reflect.Value, s *shape, indent, path string) {
	if s.variant != nil {
		w.variant(indent, path)
	}
	for _, f := range s.list {
		below := Join(path, f.name)
		if s.main == f && w.d.short[shortForm{path, s}] {
			below = path
		}
		fv, before := v.FieldByIndex(f.index), len(w.lines)
		w.value(fv, f.shape, indent, f.name, below)
		if f.group != "" && !fv.IsNil() && len(w.lines) == before { // its presence is all that matters
			w.line(indent, f.name+": {}", "")
		}
	}
}

// variant writes the type key and its configuration.
func (w *dumper) variant(indent, path string) {
	c, ok := w.d.taken[path]
	if !ok {
		return
	}
	config, before := settable(reflect.ValueOf(c.config)), len(w.lines)
	w.value(config, describe(config.Type()), indent, c.name, Join(path, c.name))
	if len(w.lines) == before {
		w.line(indent, c.name+": {}", "")
	}
}

func (w *dumper) scalar(v reflect.Value, s *shape, indent, head, path string) {
	origin := w.d.origins[path]
	if v.IsZero() && origin == (Origin{}) && s.kind != boolKind {
		return // nothing is set, which is the default
	}
	w.line(indent, strings.TrimSpace(head+" "+shown(v, s, origin)), origin.String())
}

// shown returns the value's text, with secrets masked.
func shown(v reflect.Value, s *shape, origin Origin) string {
	if origin.node != nil && strings.Contains(origin.node.Text, "${file:") {
		return mask
	}
	text := written(s, v)
	switch s.kind {
	case textKind:
		return plainText(text)
	case customKind, textualKind:
		if m, ok := v.Interface().(encoding.TextMarshaler); ok && (text == "" || v.Kind() == reflect.Int) {
			t, _ := m.MarshalText() // a value without a text is shown as it was written
			text = string(t)
		}
		if text == "" {
			return "…"
		}
		return plainText(text)
	}
	if text == "" { // a zero that was written
		return fmt.Sprint(v.Interface())
	}
	return text
}

// plainText returns a text for YAML, in quotes only if needed.
func plainText(text string) string {
	odd := text == "" || strings.TrimSpace(text) != text || strings.HasSuffix(text, ":") ||
		strings.ContainsAny(text[:1], "!&*@%[]{}|>'\"`#,?-") || strings.Contains(text, ": ") ||
		strings.Contains(text, " #") ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })
	if odd {
		return strconv.Quote(text)
	}
	return text
}
