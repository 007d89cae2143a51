package schema

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// example says what to write for a scalar of the wrong kind: the field's default, or some value. v holds the default.
func example(f *field, s *shape, v reflect.Value) string {
	text := ""
	switch {
	case s.kind == boolKind:
		return "write true or false"
	case f != nil && leftOut(f, s, v) != "":
		return leftOut(f, s, v)
	case s.kind == intKind || s.kind == uintKind:
		text = "10"
	case s.kind == floatKind:
		text = "0.5"
	default:
		return ""
	}
	if f != nil && !(&field{shape: s, check: f.check}).takes(text) {
		text = cmp.Or(f.check.min, f.check.max)
	}
	return "write a number such as " + text
}

// zeroMeaning matches what docs say of the value 0.
var zeroMeaning = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b0 means [^.;,:]+`) })

// zeroMeans is what 0 means for a field that got a negative number, which stands for it in other systems, or "".
func zeroMeans(f *field, text string) string {
	if !strings.HasPrefix(text, "-") {
		return ""
	}
	return zeroMeaning().FindString(f.doc)
}

// leftOut mentions the default of a field without a value.
func leftOut(f *field, s *shape, v reflect.Value) string {
	if f.shape.pointed() != s { // the field is a list or mapping of such values
		return ""
	}
	if text := defaultText(&field{shape: s, check: f.check, def: f.def}, v); text != "" {
		return "leave it out for " + text
	}
	return ""
}

// takes reports whether a field may accept a scalar. A type that decodes itself may.
func (f *field) takes(text string) bool {
	s := f.shape.pointed()
	switch {
	case s.kind == customKind:
		return true
	case s.kind > textualKind || parse(reflect.New(s.rt).Elem(), s, text) != nil:
		return false
	}
	message, _ := f.check.broken(s.kind, text)
	return message == ""
}

// tells reports whether a scalar clearly is the value of a field, so that an example may show it: any text may be a
// name or a path.
func (f *field) tells(text string) bool {
	switch {
	case f.shape.kind == textKind:
		return f.check.oneof != nil && f.takes(text)
	case f.shape.kind > sizeKind:
		return false
	}
	return f.takes(text)
}

// asMapping returns what a scalar may have meant in place of a mapping, or "".
func (r *recordDecoder) asMapping() string {
	text := r.n.Text
	switch {
	case r.n.Kind == ListNode && len(r.n.Items) == 1:
		return r.inList(r.n.Items[0])
	case !r.n.scalar():
		return ""
	case r.s.variant != nil:
		return asVariant(r.s.variants(), text)
	case len(r.s.list) == 0:
		return "it takes no settings"
	case r.s.list[0].tells(text) && !hasPlaceholder(text):
		return fmt.Sprintf("write {%s: %s}", r.s.list[0].name, text)
	}
	return fmt.Sprintf("write {%s: …}", r.s.list[0].name)
}

// inList returns what the only item of a list may have meant in place of the list, or "".
func (r *recordDecoder) inList(item *Node) string {
	switch {
	case item.Kind == MapNode && r.at.key == nil: // an item of a list itself
		return "remove one of the two dashes"
	case item.Kind == MapNode:
		return "write it without brackets or dash"
	case item.scalar() && r.s.by[item.Text] != nil && r.s.by[item.Text].group != "":
		return "write " + item.Text
	}
	return ""
}

// asVariant returns the right form for the name of a type alone, or nearly alone.
func asVariant(variants Variants, text string) string {
	name := text
	if first, rest, ok := strings.Cut(text, " "); ok && variants.Variant(first) != nil {
		return fmt.Sprintf("write `%s: %s`", first, strings.TrimLeft(rest, " =:"))
	}
	if variants.Variant(name) == nil {
		name = Nearest(text, variants.Names())
	}
	t := variants.Variant(name)
	switch {
	case t == nil:
		return "write the " + variants.Kind() + " itself, as {TYPE: …}; " + listTypes(variants)
	case t.lackingWithout(t.value()) || t.shape().main != nil ||
		slices.ContainsFunc(t.shape().list, func(f *field) bool { return f.check.required }):
		return "write {" + name + ": …}"
	}
	return "write {" + name + ": {}}"
}

// elsewhere says where an unknown key of this struct belongs: among the fields of the component's type, or next to
// the type. It returns "" if unknown.
func (r *recordDecoder) elsewhere(key string) string {
	if of, ok := r.taken[r.at.path]; ok && r.s.variant != nil {
		if t := r.s.variants().Variant(of.name); t.shape() != nil && t.shape().by[key] != nil {
			return fmt.Sprintf("it belongs to the type: write {%s: {%s: …}}", of.name, key)
		}
	}
	if r.at.component != nil && r.at.component.by[key] != nil && r.at.key != nil {
		return fmt.Sprintf("it belongs beside the type: write {%s: …, %s: …}", r.at.key.Text, key)
	}
	return ""
}

// example says how to choose one of the group at a key, or returns "".
func (g *group) example(key *Node) string {
	f := g.members[0]
	switch {
	case key == nil:
		return ""
	case f.shape.elem.kind == recordKind:
		return fmt.Sprintf("such as %s: %s", key.Text, f.name)
	}
	return fmt.Sprintf("such as %s: {%s: …}", key.Text, f.name)
}

// asNamed shows a mapping whose keys are names.
func asNamed(s *shape) string {
	if s.elem.kind == customKind {
		return "write {NAME: " + s.elem.expected() + "}"
	}
	return "write {NAME: …}"
}

// asList returns what a value may have meant in place of a list, or "".
func asList(n *Node, s *shape) string {
	switch {
	case n.Kind == MapNode && len(n.Keys) == 1 && n.Items[0].Kind == ListNode:
		return fmt.Sprintf("write the list here, without `%s`", n.Keys[0].Text)
	case n.Kind == MapNode && s.elem.takesMap():
		return "make it an item of a list: begin it with `- `"
	case n.scalar() && len(n.Text) < 40 && (&field{shape: s.elem}).takes(n.Text):
		return "write [" + n.Text + "]"
	case n.scalar() && s.elem.kind == recordKind && s.elem.variant != nil:
		if remedy, ok := strings.CutPrefix(asVariant(s.elem.variants(), n.Text), "write "); ok {
			return "write [" + remedy + "]"
		}
	}
	return ""
}

// article returns a noun with its article: "an input".
func article(noun string) string {
	if strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}
