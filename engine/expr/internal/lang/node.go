package lang

import (
	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Node is a compiled part of an expression: a closure that gives its value and, for some nodes, shorter ways to a scalar or
// to its JSON. The shorter ways never give another value or error than the closure does.
type Node struct {
	at     ast.Node
	eval   func(*Frame) any
	Scalar ScalarFunc // nil: there is none
	Write  WriteFunc  // of JSON; nil: see writer
	Raw    WriteFunc  // of a text or bytes as they are; nil: there is none

	Kinds  value.Kinds // what its value can be
	Offset int         // in the code, where errors about its value point
	secret bool        // its value has that of a placeholder in it
	Const  bool        // its value is known: Value
	Value  any         // of a constant
	Path   *doc.Path   // of a node that only reads a path of the document
	unfit  *failure    // about a part of a list or object that no document can contain

	bounded bool // Write charges for all that it writes
}

// constant is a node whose value is known.
func (c *compiler) constant(at ast.Node, v any) Node {
	return Node{
		at:     at,
		eval:   func(*Frame) any { return v },
		Scalar: constantScalar(v),
		Kinds:  value.KindOf(v),
		Offset: c.offset(at),
		secret: c.secret(at),
		Const:  true,
		Value:  v,
	}
}

// misplaced is the failure of a value that no document can contain, as far as is known at load, or nil.
func (n *Node) misplaced() *failure {
	switch {
	case n.Const:
		return unfit(n.Offset, n.Value)
	case n.unfit != nil:
		return n.unfit
	}
	return unfitKind(n.Offset, n.Kinds)
}

// unfitIn is misplaced for the elements of a list, or the keys and values of an object.
func unfitIn(elems []Node) *failure {
	for i := range elems {
		if f := elems[i].misplaced(); f != nil {
			return f
		}
	}
	return nil
}

// unary is a function of one value and the frame.
func (c *compiler) unary(at ast.Node, out value.Kinds, x Node, fn func(f *Frame, v any) any) Node {
	if x.Const && !c.trying {
		return c.folded(at, fn(c.frame, x.Value), x)
	}
	return Node{
		at: at, Kinds: out, Offset: c.offset(at), secret: x.secret,
		eval: func(f *Frame) any { return fn(f, x.eval(f)) },
	}
}

// binary is a function of two values.
func (c *compiler) binary(at ast.Node, out value.Kinds, l, r Node, fn func(a, b any) any) Node {
	if l.Const && r.Const && !c.trying {
		return c.folded(at, fn(l.Value, r.Value), l, r)
	}
	return Node{
		at: at, Kinds: out, Offset: c.offset(at), secret: l.secret || r.secret,
		eval: func(f *Frame) any {
			a := l.eval(f)
			return fn(a, r.eval(f))
		},
	}
}

// call is a function of any number of values, which it must not keep.
func (c *compiler) call(at ast.Node, out value.Kinds, args []Node, pure bool, fn func(f *Frame, args []any) any) Node {
	konst, secret := pure && !c.trying, false
	values := make([]any, len(args))
	for i, a := range args {
		konst = konst && a.Const
		secret = secret || a.secret
		values[i] = a.Value
	}
	if konst {
		return c.folded(at, fn(c.frame, values), args...)
	}
	return Node{
		at: at, Kinds: out, Offset: c.offset(at), secret: secret,
		eval: func(f *Frame) any {
			base := len(f.args)
			for _, a := range args {
				v := a.eval(f) // may move f.args
				f.args = append(f.args, v)
			}
			v := fn(f, f.args[base:len(f.args):len(f.args)])
			f.args = f.args[:base]
			return v
		},
	}
}

// literal is call for what can't fail with constants: they are done at load within try(), too.
func (c *compiler) literal(at ast.Node, out value.Kinds, args []Node, fn func(f *Frame, args []any) any) Node {
	was := c.trying
	c.trying = false
	v := c.call(at, out, args, true, fn)
	c.trying = was
	return v
}

// folded is the constant that constants made.
func (c *compiler) folded(at ast.Node, v any, of ...Node) Node {
	n := c.constant(at, v)
	for _, o := range of {
		n.secret = n.secret || o.secret
	}
	return n
}

// read is a node that only reads the document.
func (c *compiler) read(at ast.Node, offset int, p doc.Path) Node {
	fn := func(f *Frame) any { return f.readPath(offset, p) }
	if len(c.loops) > 0 {
		slot, ok := c.slots[p.String()]
		if !ok {
			slot = len(c.slots)
			c.slots[p.String()] = slot
		}
		fn = func(f *Frame) any { return f.readPathOnce(offset, p, slot) }
	}
	return Node{
		at:     at,
		eval:   fn,
		Scalar: func(d *doc.Doc) (Scalar, bool) { return readScalar(d, p) },
		Write:  readWrite(offset, p),
		Kinds:  value.InDocument,
		Offset: offset,
		Path:   &p,
	}
}
