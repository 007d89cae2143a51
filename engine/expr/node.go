package expr

import (
	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// node is a part of an expression, compiled: a closure that gives its value, and shorter ways to some of what is asked
// of it, where there are any. They never give another value or error than the closure does.
type node struct {
	at     ast.Node
	eval   func(*frame) any
	scalar scalarFunc
	write  writeFunc
	raw    writeFunc // of text or bytes: as they are

	kinds  value.Kinds // what its value can be
	offset int         // in the code, where errors about its value point
	secret bool        // its value is from a placeholder
	konst  bool
	value  any       // of a constant
	path   *doc.Path // of a node that is nothing but a path
	unfit  *failure  // of what is known to be in a list or object, which no document can contain

	bounded bool // write charges for all that it writes
}

// constant is a node whose value is known.
func (c *compiler) constant(at ast.Node, v any) node {
	return node{
		at:     at,
		eval:   func(*frame) any { return v },
		scalar: constantScalar(v),
		kinds:  value.KindOf(v),
		offset: c.offset(at),
		secret: c.secret(at),
		konst:  true,
		value:  v,
	}
}

// misplaced is what is known to be wrong with the value in a document, or nil.
func (n *node) misplaced() *failure {
	switch {
	case n.konst:
		return unfit(n.offset, n.value)
	case n.unfit != nil:
		return n.unfit
	}
	return unfitKind(n.offset, n.kinds)
}

// unfitIn is misplaced for the elements of a list, or the keys and values of an object.
func unfitIn(elems []node) *failure {
	for i := range elems {
		if f := elems[i].misplaced(); f != nil {
			return f
		}
	}
	return nil
}

// unary is a function of one value and the frame.
func (c *compiler) unary(at ast.Node, out value.Kinds, x node, fn func(f *frame, v any) any) node {
	if x.konst && !c.trying {
		return c.folded(at, fn(c.frame, x.value), x)
	}
	return node{
		at: at, kinds: out, offset: c.offset(at), secret: x.secret,
		eval: func(f *frame) any { return fn(f, x.eval(f)) },
	}
}

// binary is a function of two values.
func (c *compiler) binary(at ast.Node, out value.Kinds, l, r node, fn func(a, b any) any) node {
	if l.konst && r.konst && !c.trying {
		return c.folded(at, fn(l.value, r.value), l, r)
	}
	return node{
		at: at, kinds: out, offset: c.offset(at), secret: l.secret || r.secret,
		eval: func(f *frame) any {
			a := l.eval(f)
			return fn(a, r.eval(f))
		},
	}
}

// call is a function of any number of values, which it must not keep.
func (c *compiler) call(at ast.Node, out value.Kinds, args []node, pure bool, fn func(f *frame, args []any) any) node {
	konst, secret := pure && !c.trying, false
	values := make([]any, len(args))
	for i, a := range args {
		konst = konst && a.konst
		secret = secret || a.secret
		values[i] = a.value
	}
	if konst {
		return c.folded(at, fn(c.frame, values), args...)
	}
	return node{
		at: at, kinds: out, offset: c.offset(at), secret: secret,
		eval: func(f *frame) any {
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
func (c *compiler) literal(at ast.Node, out value.Kinds, args []node, fn func(f *frame, args []any) any) node {
	was := c.trying
	c.trying = false
	v := c.call(at, out, args, true, fn)
	c.trying = was
	return v
}

// folded is the constant that constants made.
func (c *compiler) folded(at ast.Node, v any, of ...node) node {
	n := c.constant(at, v)
	for _, o := range of {
		n.secret = n.secret || o.secret
	}
	return n
}

// read is a node that only reads the document.
func (c *compiler) read(at ast.Node, offset int, p doc.Path) node {
	fn := func(f *frame) any { return f.get(offset, p) }
	if len(c.loops) > 0 {
		slot, ok := c.slots[p.String()]
		if !ok {
			slot = len(c.slots)
			c.slots[p.String()] = slot
		}
		fn = func(f *frame) any { return f.once(offset, p, slot) }
	}
	return node{
		at:     at,
		eval:   fn,
		scalar: func(d *doc.Doc) (scalar, bool) { return readScalar(d, p) },
		write:  readWrite(offset, p),
		kinds:  value.InDocument,
		offset: offset,
		path:   &p,
	}
}
