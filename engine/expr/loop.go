package expr

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// loop is a function that evaluates its second argument, the body, for each element of its first.
type loop struct {
	usage, doc, example string

	form  string      // the function of expr's parser that takes arguments of the same form; "": the one of this name
	of    value.Kinds // what it goes through
	truth bool        // the body must be true or false
	makes int         // bytes of the result for each element
	out   value.Kinds
	run   func(f *frame, s *site, in any, b body, third []any) any

	// write makes the shorter way to the text of what is made of a value at a path, whose body has one; or nil.
	write func(s *site, p doc.Path, b body) writeFunc
}

// body is what a loop evaluates for each element.
type body struct {
	eval  func(*frame) any
	write writeFunc // of walk
	slot  int       // of the element in frame.elements
}

// element is what a loop is at. Only its own body reads it.
type element struct {
	value any    // #
	raw   []byte // #, not decoded; nil: value has it
	index int    // #index
	key   any    // #key
	acc   any    // #acc
	path  []any
}

// read is #. What can't be decoded is left to the evaluation that does not write.
func (e *element) read(f *frame) any {
	if e.raw != nil {
		v, left, err := doc.DecodeWithin(e.raw, f.memory)
		if err != nil {
			panic(&failure{err: err})
		}
		e.value, e.raw, f.memory = v, nil, left
	}
	return e.value
}

// write is # as text.
func (e *element) write(f *frame, dst []byte) ([]byte, bool) {
	if e.raw != nil {
		return doc.Canonical(dst, e.raw)
	}
	if f.foreign && unfit(0, e.value) != nil {
		return dst, false
	}
	out, err := doc.Append(dst, e.value)
	return out, err == nil
}

// at evaluates the body for an element of a list.
func (b body) at(f *frame, v any, index int) any {
	e := &f.elements[b.slot]
	e.value, e.index = v, index
	return b.eval(f)
}

// of evaluates the body for a value of an object.
func (b body) of(f *frame, key string, v any, index int) any {
	f.elements[b.slot].key = key
	return b.at(f, v, index)
}

// parts are the names of what a loop is at, beside its element, and the loops that have them; none: all.
var parts = map[string]struct {
	loops []string
	kinds value.Kinds
	read  func(e *element, f *frame) any
}{
	"":      {nil, value.Any, (*element).read},
	"index": {nil, value.Int, func(e *element, _ *frame) any { return e.index }},
	"acc":   {[]string{"reduce"}, value.Any, func(e *element, _ *frame) any { return e.acc }},
	"key": {[]string{"walk", "map_values", "map_keys", "filter_values"}, value.Text | value.Nil,
		func(e *element, _ *frame) any { return e.key }},
	"path": {[]string{"walk"}, value.Text, func(e *element, _ *frame) any { return value.PathText(e.path) }},
}

// around is a loop that the present node is in the body of.
type around struct {
	name  string
	slot  int  // of its element
	paths bool // #path is read
}

// loopOf is the loop that a call of expr's parser stands for.
func (c *compiler) loopOf(n *ast.BuiltinNode) (l *loop, name string, ok bool) {
	if name, ok = c.masked[n.Location().From]; ok {
		l = loops[Canonical(name)]
		return l, name, true
	}
	l, ok = loops[Canonical(n.Name)]
	return l, n.Name, ok
}

// loop compiles a loop.
func (c *compiler) loop(n *ast.BuiltinNode, name string, l *loop) node {
	s := &site{offset: c.offset(n), name: name}
	of := c.node(n.Arguments[0])
	args := []node{c.elements(n, s, l, of)}
	if len(n.Arguments) == 3 {
		args = append(args, c.node(n.Arguments[2]))
	}
	shared := c.shared
	c.shared = false
	b, inner := c.body(n, s, l.truth)
	repeats := c.shared
	c.shared = true
	v := c.call(n, l.out, args, false, func(f *frame, args []any) any { return l.run(f, s, args[0], b, args[1:]) })
	v.secret = v.secret || inner.secret
	if p := of.path; l.write != nil && p != nil && b.write != nil && !shared && !repeats {
		v.write, v.bounded = l.write(s, *p, b), true
	}
	return v
}

// walkWrite is walk() of what is at a path, without decoding more than the body reads.
func walkWrite(s *site, p doc.Path, b body) writeFunc {
	return func(f *frame, dst []byte) ([]byte, bool) {
		raw, there, err := f.src.Document().Raw(p)
		if err != nil || !there {
			return dst, false
		}
		f.step(s.offset, len(raw)>>5)
		e := &f.elements[b.slot]
		return doc.Rewrite(dst, raw, func(dst []byte, field string, inField bool, index int, raw []byte) ([]byte, bool) {
			e.raw, e.index, e.key = raw, index, nil
			if inField {
				e.key = field
			}
			out, ok := b.write(f, dst)
			f.bytes(s.offset, len(out)-len(dst), 1)
			return out, ok
		})
	}
}

// elements checks that there is something to go through, and charges for it.
func (c *compiler) elements(n ast.Node, s *site, l *loop, in node) node {
	s.secret[0] = in.secret
	what := "a " + l.of.String()
	if l.of == value.Object {
		what = "an object"
	}
	if in.kinds&l.of == 0 {
		s.fail("%s() needs %s, not %s", s.name, what, s.known(0, in))
	}
	in.konst = false // a loop is charged for on every message
	return c.unary(n, l.of, in, func(f *frame, v any) any {
		size := 1
		switch v := v.(type) {
		case []any:
			size = len(v)
		case map[string]any:
			size = len(v)
		}
		if value.KindOf(v)&l.of == 0 {
			remedy := ""
			if v == nil {
				remedy = map[value.Kinds]string{value.List: "write ?? [] for a list that may be missing",
					value.Object: "write ?? {} for an object that may be missing"}[l.of]
			}
			s.failFor(remedy, "%s() needs %s, not %s", s.name, what, s.left(v))
		}
		f.step(s.offset, loopSteps+size>>2)
		f.alloc(s.offset, loopSize+l.makes*size)
		return v
	})
}

// body compiles what is evaluated for each element. Each time is charged by how much code it is.
func (c *compiler) body(n *ast.BuiltinNode, s *site, truth bool) (body, node) {
	slot := c.elems
	c.elems++
	if c.loops = append(c.loops, around{name: Canonical(s.name), slot: slot}); len(c.loops) > maxNested {
		s.fail("predicates are nested more than %d deep", maxNested)
	}
	at, before := ast.Node(n), c.nodes
	x := c.pointer(&ast.PointerNode{}, s.offset)
	x.at = n
	if len(n.Arguments) > 1 {
		at = n.Arguments[1]
		x = c.node(at.(*ast.PredicateNode).Node)
	}
	if truth {
		x = c.truth(x)
	}
	steps := 1 + c.nodes - before
	x.konst = false
	b := body{slot: slot}
	if write := x.writer(); write != nil && !c.loops[len(c.loops)-1].paths {
		b.write = func(f *frame, dst []byte) ([]byte, bool) {
			f.step(s.offset, steps)
			return write(f, dst)
		}
	}
	c.loops = c.loops[:len(c.loops)-1]
	x = c.unary(at, x.kinds, x, func(f *frame, v any) any {
		f.step(s.offset, steps)
		return v
	})
	b.eval = x.eval
	return b, x
}

// pointer is the element, or what belongs to it.
func (c *compiler) pointer(n *ast.PointerNode, offset int) node {
	p, ok := parts[n.Name]
	if !ok {
		failFor(offset, "write ."+n.Name+" for the element's field", "#%s is not #, #index, #acc, #key or #path", n.Name)
	}
	at := &c.loops[len(c.loops)-1]
	at.paths = at.paths || n.Name == "path"
	slot := at.slot
	if len(p.loops) > 0 && !slices.Contains(p.loops, at.name) {
		fail(offset, "#%s only exists in %s()", n.Name, strings.Join(p.loops, "(), "))
	}
	v := node{
		at: n, kinds: p.kinds, offset: offset,
		eval: func(f *frame) any { return p.read(&f.elements[slot], f) },
	}
	if n.Name == "" {
		v.write = func(f *frame, dst []byte) ([]byte, bool) { return f.elements[slot].write(f, dst) }
	}
	return v
}
