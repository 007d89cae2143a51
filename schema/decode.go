package schema

import (
	"fmt"
	"reflect"
	"strings"
)

// maxDepth is how deep a configuration may be nested. Real ones have less than 30 levels; the limit protects the
// stack.
const maxDepth = 200

// Decoder turns nodes into values and collects all problems. Only one goroutine may use it at a time.
type Decoder struct {
	lookup   Lookup
	problems []Problem
	errors   int                // problems that are not warnings
	replaced int                // bytes of the values of placeholders
	resolved map[*Node]resolved // so that each placeholder is looked up and reported once
	secrets  *Secrets
	origins  map[string]Origin    // by path
	taken    map[string]component // by path
	short    map[shortForm]bool
	shorts   map[string]Short // by path; if one short form contains another, the outermost
	at       *frame           // the value being decoded; nil outside of Decode
	depth    int
	shared   map[reflect.Type]any // one value per type
	params   *Params              // in force
	shown    map[*Node]string     // texts with parameters, as in force
}

// frame is one value on the way down to the one being decoded.
type frame struct {
	key, node *Node // key is nil at the root and in lists
	path      string
	field     *field // the struct field that holds the value, or its list or mapping
	component *shape // the struct around it if this is its type key, else nil
	outer     *frame
}

// NewDecoder makes a decoder. lookup resolves placeholders; nil means [Environment].
func NewDecoder(lookup Lookup) *Decoder {
	if lookup == nil {
		lookup = Environment
	}
	return &Decoder{
		lookup: lookup, secrets: &Secrets{}, resolved: map[*Node]resolved{}, shown: map[*Node]string{}, taken: map[string]component{},
		short: map[shortForm]bool{}, shorts: map[string]Short{}, shared: map[reflect.Type]any{},
	}
}

// Shared returns a value that everything decoded by d shares: one value of each type, zero until it is set. It
// carries what one part of a file says about the others: it is set after Decode, and read later.
func Shared[T any](d *Decoder) *T {
	t := reflect.TypeFor[T]()
	v, ok := d.shared[t].(*T)
	if !ok {
		v = new(T)
		d.shared[t] = v
	}
	return v
}

// Decode decodes n into the value that into points to, whose present value is the default. It reports all problems.
// into then contains the valid parts. ok is false if a problem is not just a warning.
//
// An [Unmarshaler] calls it for n itself, as another type, or for a part of n, whose path then continues n's.
func (d *Decoder) Decode(n *Node, into any) (ok bool) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic(fmt.Sprintf("schema: Decode into %T: give a pointer", into))
	}
	return d.decode(n, v.Elem(), describe(v.Elem().Type()))
}

// DecodeAt is Decode for a node in place of n: it has n's path.
func (d *Decoder) DecodeAt(n, instead *Node, into any) (ok bool) {
	before, v := d.errors, reflect.ValueOf(into).Elem()
	f := &frame{node: instead, path: d.pathOf(n)}
	if d.at != nil {
		f.field = d.at.field
	}
	d.inside(f, func() { d.value(instead, v, describe(v.Type())) })
	return d.errors == before
}

func (d *Decoder) decode(n *Node, v reflect.Value, s *shape) (ok bool) {
	if n == nil {
		n = &Node{}
	}
	before := d.errors
	switch {
	case d.at == nil:
		if deep := n.deeperThan(maxDepth); deep != nil {
			d.Report(deep, Problem{Code: TooDeep, Message: fmt.Sprintf("is nested deeper than %d levels", maxDepth)})
			return false
		}
		d.inside(&frame{node: n}, func() { d.value(n, v, s) })
	case d.at.node == n:
		d.value(n, v, s)
	default:
		d.inside(&frame{node: n, path: d.pathOf(n), field: d.at.field}, func() { d.value(n, v, s) })
	}
	return d.errors == before
}

// inside runs f while the value in f is being decoded.
func (d *Decoder) inside(f *frame, run func()) {
	f.outer = d.at
	d.at = f
	run()
	d.at = f.outer
}

// value decodes the node at d.at.
func (d *Decoder) value(n *Node, v reflect.Value, s *shape) {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > 5*maxDepth { // a type that decodes itself
		d.report(n, TooDeep, "is nested too deep", "")
		return
	}
	if n.Params != nil {
		was := d.params
		defer func() { d.params = was }()
		d.params = n.Params
	}
	switch s.kind {
	case rawKind:
		v.Set(reflect.ValueOf(n))
	case customKind:
		d.note(n)
		v.Addr().Interface().(Unmarshaler).UnmarshalConfig(d, n)
	case pointerKind:
		p := reflect.New(s.elem.rt)
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		d.value(n, p.Elem(), s.elem)
		v.Set(p)
	case listKind:
		d.list(n, v, s)
	case mapKind, orderedKind:
		d.mapping(n, v, s)
	case recordKind:
		d.record(n, v, s)
	default:
		d.note(n)
		d.scalar(n, v, s)
	}
}

func (d *Decoder) list(n *Node, v reflect.Value, s *shape) {
	if n.Kind != ListNode {
		d.wrong(n, s, asList(n, s))
		return
	}
	items := reflect.MakeSlice(s.rt, len(n.Items), len(n.Items))
	for i, item := range n.Items {
		f := &frame{node: item, path: fmt.Sprintf("%s[%d]", d.at.path, i), field: d.at.field}
		d.inside(f, func() { d.value(item, items.Index(i), s.elem) })
	}
	v.Set(items)
}

func (d *Decoder) mapping(n *Node, v reflect.Value, s *shape) {
	if n.Kind != MapNode {
		d.wrong(n, s, asNamed(s))
		return
	}
	var add func(key string, value reflect.Value, pos Pos)
	if s.kind == orderedKind {
		m := v.Addr().Interface().(ordered)
		m.reset(len(n.Keys))
		add = m.add
	} else {
		m := reflect.MakeMapWithSize(s.rt, len(n.Keys))
		v.Set(m)
		add = func(key string, value reflect.Value, _ Pos) {
			m.SetMapIndex(reflect.ValueOf(key).Convert(s.rt.Key()), value)
		}
	}
	for i, key := range d.keys(n) {
		if key == nil {
			continue
		}
		item, value := n.Items[i], reflect.New(s.elem.rt).Elem()
		f := &frame{key: key, node: item, path: Join(d.at.path, key.Text), field: d.at.field}
		d.inside(f, func() { d.value(item, value, s.elem) })
		add(key.Text, value, key.Pos)
	}
}

// keys returns the keys of a mapping, with nil for a key that can't be used and was reported.
func (d *Decoder) keys(n *Node) []*Node {
	keys := make([]*Node, min(len(n.Keys), len(n.Items)))
	first := make(map[string]Pos, len(keys))
	for i := range keys {
		k := n.Keys[i]
		pos, twice := first[k.Text]
		switch {
		case k.Kind == ListNode || k.Kind == MapNode:
			d.report(k, WrongKind, "a key is text, not "+k.Kind.String(), "")
		case d.openKey(k):
		case hasPlaceholder(k.Text):
			d.report(k, PlaceholderInKey, fmt.Sprintf("a placeholder in the key %q is not replaced", k.Text),
				"placeholders belong in values")
		case twice:
			message := fmt.Sprintf("key %q is given twice", k.Text)
			if pos.Line > 0 {
				message += fmt.Sprintf(", first at %d:%d", pos.Line, pos.Col)
			}
			d.report(k, DuplicateKey, message, "remove one")
		default:
			first[k.Text] = k.Pos
			keys[i] = k
		}
	}
	return keys
}

// Tag returns a struct tag of the field being decoded, such as d.Tag("scope"), or of the nearest field around it with
// that tag.
func (d *Decoder) Tag(key string) string {
	for f := d.at; f != nil; f = f.outer {
		if f.field == nil {
			continue
		}
		if value, ok := f.field.tag.Lookup(key); ok {
			return value
		}
	}
	return ""
}

// Place returns the place of n: the value being decoded, or a part of it.
func (d *Decoder) Place(n *Node) Place {
	p := Place{Path: d.pathOf(n), Node: n}
	if n != nil {
		p.Pos = n.Pos
	}
	if d.at != nil && d.at.node == n && d.at.key != nil {
		p.Pos = d.at.key.Pos
	}
	return p
}

// pathOf returns the path of a node in the value being decoded, or the path of that value if n is not part of it.
func (d *Decoder) pathOf(n *Node) string {
	if d.at == nil {
		return ""
	}
	path, _ := d.at.node.find(n, d.at.path, maxDepth)
	return path
}

// find returns the path of a node below n. path is that of n.
func (n *Node) find(wanted *Node, path string, depth int) (string, bool) {
	if n == wanted || n == nil || depth == 0 {
		return path, n == wanted
	}
	step := func(i int) string {
		if i < len(n.Keys) {
			return Join(path, n.Keys[i].Text)
		}
		return fmt.Sprintf("%s[%d]", path, i)
	}
	for i, item := range n.Items { // children first: usually they are asked for
		if item == wanted || i < len(n.Keys) && n.Keys[i] == wanted {
			return step(i), true
		}
	}
	for i, item := range n.Items {
		if len(item.Items) == 0 {
			continue
		}
		if p, ok := item.find(wanted, step(i), depth-1); ok {
			return p, true
		}
	}
	return path, false
}

// Join appends a key to a path, in quotes if it could be misread.
func Join(path, key string) string {
	if key == "" || strings.ContainsFunc(key, odd) {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Within reports whether a path is outer or below it.
func Within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

func odd(r rune) bool {
	return r <= ' ' || strings.ContainsRune(`[]"':`, r) || r == 0x7f || r > 0x7f && !isLetter(r)
}
