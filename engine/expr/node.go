package expr

import (
	"fmt"
	"reflect"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"

	"github.com/flowd-io/flowd/engine/doc"
)

// node is a part of an expression, compiled twice: as syntax for expr's VM, in
// which all operators are calls of our functions, and as a closure that needs no
// VM. Both call the same functions, so results and errors can't differ.
type node struct {
	ast    ast.Node
	eval   func(*frame) any // nil: only the VM can, there is a predicate or a let inside
	scalar scalarFunc
	write  writeFunc

	kinds  kinds // what its value can be
	offset int   // in the code, where errors about its value point
	secret bool  // its value is from a placeholder
	konst  bool
	value  any       // of a constant
	path   *doc.Path // of a node that is nothing but a path
}

// opaque is the type that expr's compiler sees on every node: one of which it knows nothing
// and which is not a pointer, so that it adds no instructions.
type opaque struct{}

// vmNode marks n for expr's compiler.
func vmNode(n ast.Node, like ast.Node) ast.Node {
	n.SetLocation(like.Location())
	n.SetType(reflect.TypeFor[opaque]())
	return n
}

// constant is a node whose value is known.
func (c *compiler) constant(at ast.Node, v any) node {
	return node{
		ast:    vmNode(&ast.ConstantNode{Value: v}, at),
		eval:   func(*frame) any { return v },
		scalar: constantScalar(v),
		kinds:  kindOf(v),
		offset: c.offset(at),
		secret: c.secret(at),
		konst:  true,
		value:  v,
	}
}

// unary is a function of one value and the frame.
func (c *compiler) unary(at ast.Node, out kinds, x node, fn func(f *frame, v any) any) node {
	if x.konst {
		return c.folded(at, fn(c.frame, x.value), x)
	}
	n := node{
		ast:   vmCall(at, func(f, v any) any { return fn(f.(*frame), v) }, vmFrame(at), x.ast),
		kinds: out, offset: c.offset(at), secret: x.secret,
	}
	if x.eval != nil {
		n.eval = func(f *frame) any { return fn(f, x.eval(f)) }
	}
	return n
}

// binary is a function of two values.
func (c *compiler) binary(at ast.Node, out kinds, l, r node, fn func(a, b any) any) node {
	if l.konst && r.konst {
		return c.folded(at, fn(l.value, r.value), l, r)
	}
	n := node{
		ast:   vmCall(at, fn, l.ast, r.ast),
		kinds: out, offset: c.offset(at), secret: l.secret || r.secret,
	}
	if l.eval != nil && r.eval != nil {
		n.eval = func(f *frame) any {
			a := l.eval(f)
			return fn(a, r.eval(f))
		}
	}
	return n
}

// call is a function of any number of values, which it must not keep.
func (c *compiler) call(at ast.Node, out kinds, args []node, pure bool, fn func(f *frame, args []any) any) node {
	konst, direct, secret := pure, true, false
	syntax := []ast.Node{vmFrame(at)}
	values := make([]any, len(args))
	for i, a := range args {
		konst = konst && a.konst
		direct = direct && a.eval != nil
		secret = secret || a.secret
		values[i] = a.value
		syntax = append(syntax, a.ast)
	}
	if konst {
		return c.folded(at, fn(c.frame, values), args...)
	}
	n := node{
		ast:   c.vmCallN(at, fn, syntax),
		kinds: out, offset: c.offset(at), secret: secret,
	}
	if direct {
		n.eval = func(f *frame) any {
			base := len(f.args)
			for _, a := range args {
				v := a.eval(f) // may move f.args
				f.args = append(f.args, v)
			}
			v := fn(f, f.args[base:len(f.args):len(f.args)])
			f.args = f.args[:base]
			return v
		}
	}
	return n
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
		ast:    vmCall(at, func(f any) any { return fn(f.(*frame)) }, vmFrame(at)),
		eval:   fn,
		scalar: func(d *doc.Doc) (scalar, bool) { return readScalar(d, p) },
		write:  readWrite(offset, p),
		kinds:  kField,
		offset: offset,
		path:   &p,
	}
}

// vmFrame is the VM's environment, which is the frame.
func vmFrame(at ast.Node) ast.Node { return vmNode(&ast.IdentifierNode{Value: "$env"}, at) }

// vmCall calls a func(any) any or func(any, any) any: types that the VM calls
// without reflection or allocation.
func vmCall(at ast.Node, fn any, args ...ast.Node) ast.Node {
	callee := vmNode(&ast.ConstantNode{Value: fn}, at)
	callee.SetType(reflect.TypeOf(fn))
	return vmNode(&ast.CallNode{Callee: callee, Arguments: args}, at)
}

// vmCallN calls a function of the frame and any number of values. A name of its
// own keeps the functions of different calls apart.
func (c *compiler) vmCallN(at ast.Node, fn func(f *frame, args []any) any, args []ast.Node) ast.Node {
	name := fmt.Sprintf("$%d", len(c.config.Functions))
	c.config.Functions[name] = &builtin.Function{Name: name, Func: func(params ...any) (any, error) {
		return fn(params[0].(*frame), params[1:]), nil
	}}
	callee := vmNode(&ast.IdentifierNode{Value: name}, at)
	return vmNode(&ast.CallNode{Callee: callee, Arguments: args}, at)
}
