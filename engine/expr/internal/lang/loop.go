package lang

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// loop is a function that evaluates its second argument, the body, for each element of its first argument.
type loop struct {
	usage, doc, example string

	form  string      // a function of expr's parser with arguments of the same form; "": the one of the same name
	of    value.Kinds // the kind of its first argument
	truth bool        // the body must be true or false
	makes int         // bytes of the result for each element of the first argument
	out   value.Kinds
	run   func(f *Frame, s *Site, in any, b body, third []any) any

	// write makes a shorter way to the JSON of the result for the value at a path. It is called if the body has one. May be nil.
	write func(s *Site, p doc.Path, b body) WriteFunc
}

// body is the expression that a loop evaluates for each element.
type body struct {
	eval  func(*Frame) any
	write WriteFunc // a shorter way to its JSON, for walk(); may be nil
	slot  int       // of the element in Frame.elements
	paths bool      // it reads #path
}

// element is the current element of a loop. Only the body of that loop reads it.
type element struct {
	value any    // #
	raw   []byte // # before it is decoded; nil: value is #
	index int    // #index
	key   any    // #key
	acc   any    // #acc
	path  []any  // #path
}

// read is the value of #. If it can't be decoded, the program is evaluated again without shorter ways, which reports it.
func (e *element) read(f *Frame) any {
	if e.raw != nil {
		v, left, err := doc.DecodeWithin(e.raw, f.memory)
		if err != nil {
			panic(&failure{err: err})
		}
		e.value, e.raw, f.memory = v, nil, left
	}
	return e.value
}

// write appends # as JSON.
func (e *element) write(f *Frame, dst []byte) ([]byte, bool) {
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
func (b body) at(f *Frame, v any, index int) any {
	e := &f.elements[b.slot]
	e.value, e.index = v, index
	return b.eval(f)
}

// of evaluates the body for a value of an object.
func (b body) of(f *Frame, key string, v any, index int) any {
	f.elements[b.slot].key = key
	return b.at(f, v, index)
}

// parts are what code can read of the current element: # and, with these names after the #, more. Only some loops have #acc,
// #key and #path.
var parts = map[string]struct {
	loops []string
	kinds value.Kinds
	read  func(e *element, f *Frame) any
}{
	"":      {nil, value.Any, (*element).read},
	"index": {nil, value.Int, func(e *element, _ *Frame) any { return e.index }},
	"acc":   {[]string{"reduce"}, value.Any, func(e *element, _ *Frame) any { return e.acc }},
	"key": {[]string{"walk", "map_values", "map_keys", "filter_values"}, value.Text | value.Nil,
		func(e *element, _ *Frame) any { return e.key }},
	"path": {[]string{"walk"}, value.Text, func(e *element, _ *Frame) any { return value.PathText(e.path) }},
}

// around is a loop whose body is being compiled.
type around struct {
	name  string
	slot  int  // of its element
	paths bool // #path is read
}

// loopOf is the loop that a call stands for in expr's syntax tree.
func (c *compiler) loopOf(n *ast.BuiltinNode) (l *loop, name string, ok bool) {
	if name, ok = c.masked[n.Location().From]; ok {
		l = loops[Canonical(name)]
		return l, name, true
	}
	l, ok = loops[Canonical(n.Name)]
	return l, n.Name, ok
}

// loop compiles a loop.
func (c *compiler) loop(n *ast.BuiltinNode, name string, l *loop) Node {
	s := &Site{Offset: c.offset(n), Name: name}
	of := c.node(n.Arguments[0])
	args := []Node{c.elements(n, s, l, of)}
	if len(n.Arguments) == 3 {
		args = append(args, c.node(n.Arguments[2]))
	}
	shared := c.shared
	c.shared = false
	b, inner := c.body(n, s, l.truth)
	repeats := c.shared
	c.shared = true
	v := c.call(n, l.out, args, false, func(f *Frame, args []any) any { return l.run(f, s, args[0], b, args[1:]) })
	v.secret = v.secret || inner.secret
	if p := of.Path; l.write != nil && p != nil && b.write != nil && !shared && !repeats {
		v.Write, v.bounded = l.write(s, *p, b), true
	}
	return v
}

// walkWrite is walk() of the value at a path. It decodes no more than the body reads.
func walkWrite(s *Site, p doc.Path, b body) WriteFunc {
	return func(f *Frame, dst []byte) ([]byte, bool) {
		raw, there, err := f.src.Document().Raw(p)
		if err != nil || !there {
			return dst, false
		}
		f.Step(s.Offset, len(raw)>>5)
		e := &f.elements[b.slot]
		leaf := func(dst []byte, field string, inField bool, index int, raw []byte) ([]byte, bool) {
			e.raw, e.index, e.key = raw, index, nil
			if inField {
				e.key = field
			}
			out, ok := b.write(f, dst)
			f.ChargeBytes(s.Offset, len(out)-len(dst), 1)
			return out, ok
		}
		edits := doc.Edits{Leaf: leaf}
		if b.paths {
			e.path = e.path[:0]
			edits.Path = &e.path
		}
		return doc.Rewrite(dst, raw, edits)
	}
}

// walkKeysWrite is walk_keys() of the value at a path.
func walkKeysWrite(s *Site, p doc.Path, b body) WriteFunc {
	return func(f *Frame, dst []byte) ([]byte, bool) {
		raw, there, err := f.src.Document().Raw(p)
		if err != nil || !there {
			return dst, false
		}
		f.ChargeBytes(s.Offset, len(raw), 1)
		e := &f.elements[b.slot]
		key := func(dst, raw []byte) ([]byte, bool) {
			e.raw, e.index = raw, 0
			out, ok := b.write(f, dst)
			f.ChargeBytes(s.Offset, len(out)-len(dst), 1)
			return out, ok
		}
		return doc.Rewrite(dst, raw, doc.Edits{Key: key})
	}
}

// elements compiles the first argument of a loop: evaluated, it must be of the right kind, and is charged for.
func (c *compiler) elements(n ast.Node, s *Site, l *loop, in Node) Node {
	s.Secret[0] = in.secret
	what := "a " + l.of.String()
	if l.of == value.Object {
		what = "an object"
	}
	if in.Kinds&l.of == 0 {
		s.Fail("%s() needs %s, not %s", s.Name, what, s.ShowNode(0, in))
	}
	in.Const = false // a loop is charged for on every message
	return c.unary(n, l.of, in, func(f *Frame, v any) any {
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
			s.FailWith(remedy, "%s() needs %s, not %s", s.Name, what, s.Show(v))
		}
		f.Step(s.Offset, loopSteps+size>>2)
		f.Alloc(s.Offset, loopSize+l.makes*size)
		return v
	})
}

// body compiles the body of a loop. Each evaluation is charged by the amount of code.
func (c *compiler) body(n *ast.BuiltinNode, s *Site, truth bool) (body, Node) {
	slot := c.elems
	c.elems++
	if c.loops = append(c.loops, around{name: Canonical(s.Name), slot: slot}); len(c.loops) > MaxNested {
		s.Fail("predicates are nested more than %d deep", MaxNested)
	}
	at, before := ast.Node(n), c.nodes
	x := c.pointer(&ast.PointerNode{}, s.Offset)
	x.at = n
	if len(n.Arguments) > 1 {
		at = n.Arguments[1]
		x = c.node(at.(*ast.PredicateNode).Node)
	}
	if truth {
		x = c.truth(x)
	}
	steps := 1 + c.nodes - before
	x.Const = false
	b := body{slot: slot, paths: c.loops[len(c.loops)-1].paths}
	if write := x.writer(); write != nil {
		b.write = func(f *Frame, dst []byte) ([]byte, bool) {
			f.Step(s.Offset, steps)
			return write(f, dst)
		}
	}
	c.loops = c.loops[:len(c.loops)-1]
	x = c.unary(at, x.Kinds, x, func(f *Frame, v any) any {
		f.Step(s.Offset, steps)
		return v
	})
	b.eval = x.eval
	return b, x
}

// pointer compiles # and #name.
func (c *compiler) pointer(n *ast.PointerNode, offset int) Node {
	p, ok := parts[n.Name]
	if !ok {
		failWith(offset, "write ."+n.Name+" for the element's field", "#%s is not #, #index, #acc, #key or #path", n.Name)
	}
	at := &c.loops[len(c.loops)-1]
	at.paths = at.paths || n.Name == "path"
	slot := at.slot
	if len(p.loops) > 0 && !slices.Contains(p.loops, at.name) {
		fail(offset, "#%s only exists in %s()", n.Name, strings.Join(p.loops, "(), "))
	}
	v := Node{
		at: n, Kinds: p.kinds, Offset: offset,
		eval: func(f *Frame) any { return p.read(&f.elements[slot], f) },
	}
	if n.Name == "" {
		v.Write = func(f *Frame, dst []byte) ([]byte, bool) { return f.elements[slot].write(f, dst) }
	}
	return v
}
