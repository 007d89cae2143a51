package expr

import (
	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// truth is x as a condition: what is neither true nor false fails.
func (c *compiler) truth(x node) node {
	if x.kinds == value.Bool {
		return x
	}
	if x.kinds&value.Bool == 0 {
		fail(x.offset, "a condition must be true or false, but this is %s", x.kinds)
	}
	s := &site{offset: x.offset, secret: [2]bool{x.secret}}
	t := c.unary(x.at, value.Bool, x, func(_ *frame, v any) any {
		if _, ok := v.(bool); !ok {
			remedy := ""
			if v == nil {
				remedy = ifMissing
			}
			s.failFor(remedy, "a condition must be true or false, but this is %s", s.left(v))
		}
		return v
	})
	t.offset, t.scalar = x.offset, x.scalar.then(scalar.truth)
	return t
}

// logic is and, or: the right side is not evaluated when the left one decides.
func (c *compiler) logic(n *ast.BinaryNode) node {
	or := n.Operator == "or" || n.Operator == "||"
	l, r := c.truth(c.node(n.Left)), c.truth(c.node(n.Right))
	if l.konst {
		if l.value == or {
			return l
		}
		return r
	}
	return node{
		at: n, kinds: value.Bool, offset: c.offset(n),
		scalar: logicScalar(or, l.scalar, r.scalar),
		eval: func(f *frame) any {
			if l.eval(f) == or {
				return or
			}
			return r.eval(f)
		},
	}
}

// coalesce is ??: the right side replaces nil.
func (c *compiler) coalesce(n *ast.BinaryNode) node {
	l, r := c.node(n.Left), c.node(n.Right)
	if l.konst {
		if l.value == nil {
			return r
		}
		return l
	}
	v := node{
		at: n, kinds: l.kinds&^value.Nil | r.kinds, offset: l.offset, secret: l.secret || r.secret,
		scalar: coalesceScalar(l.scalar, r.scalar),
		write:  coalesceWrite(l, r),
		eval: func(f *frame) any {
			if x := l.eval(f); x != nil {
				return x
			}
			return r.eval(f)
		},
	}
	if l.kinds&value.Nil == 0 {
		v.kinds = l.kinds
	}
	return v
}

// conditional is cond ? a : b, and if cond { a } else { b }.
func (c *compiler) conditional(n *ast.ConditionalNode) node {
	cond := c.truth(c.node(n.Cond))
	a, b := cond, c.node(n.Exp2)
	if n.Exp1 != n.Cond { // they are one in a ?: b
		a = c.node(n.Exp1)
	}
	if cond.konst {
		if cond.value == true {
			return a
		}
		return b
	}
	return node{
		at: n, kinds: a.kinds | b.kinds, offset: cond.offset, secret: a.secret || b.secret,
		scalar: choiceScalar(cond.scalar, a.scalar, b.scalar),
		write:  choiceWrite(cond, a, b),
		eval: func(f *frame) any {
			if cond.eval(f) == true {
				return a.eval(f)
			}
			return b.eval(f)
		},
	}
}
