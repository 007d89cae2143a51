package lang

import (
	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// truth is x as a condition: it fails if it is neither true nor false.
func (c *compiler) truth(x Node) Node {
	if x.Kinds == value.Bool {
		return x
	}
	if x.Kinds&value.Bool == 0 {
		fail(x.Offset, "a condition must be true or false, but this is %s", x.Kinds)
	}
	s := &Site{Offset: x.Offset, Secret: [2]bool{x.secret}}
	t := c.unary(x.at, value.Bool, x, func(_ *Frame, v any) any {
		if _, ok := v.(bool); !ok {
			remedy := ""
			if v == nil {
				remedy = ifMissing
			}
			s.FailWith(remedy, "a condition must be true or false, but this is %s", s.Show(v))
		}
		return v
	})
	t.Offset, t.Scalar = x.Offset, x.Scalar.Then(Scalar.truth)
	return t
}

// logic is and, or: the right side is not evaluated when the left one decides.
func (c *compiler) logic(n *ast.BinaryNode) Node {
	or := n.Operator == "or" || n.Operator == "||"
	l, r := c.truth(c.node(n.Left)), c.truth(c.node(n.Right))
	if l.Const {
		if l.Value == or {
			return l
		}
		return r
	}
	return Node{
		at: n, Kinds: value.Bool, Offset: c.offset(n),
		Scalar: logicScalar(or, l.Scalar, r.Scalar),
		eval: func(f *Frame) any {
			if l.eval(f) == or {
				return or
			}
			return r.eval(f)
		},
	}
}

// coalesce is ??: the right side replaces nil.
func (c *compiler) coalesce(n *ast.BinaryNode) Node {
	l, r := c.node(n.Left), c.node(n.Right)
	if l.Const {
		if l.Value == nil {
			return r
		}
		return l
	}
	v := Node{
		at: n, Kinds: l.Kinds&^value.Nil | r.Kinds, Offset: l.Offset, secret: l.secret || r.secret,
		Scalar: coalesceScalar(l.Scalar, r.Scalar),
		Write:  coalesceWrite(l, r),
		eval: func(f *Frame) any {
			if x := l.eval(f); x != nil {
				return x
			}
			return r.eval(f)
		},
	}
	if l.Kinds&value.Nil == 0 {
		v.Kinds = l.Kinds
	}
	return v
}

// conditional is cond ? a : b, and if cond { a } else { b }.
func (c *compiler) conditional(n *ast.ConditionalNode) Node {
	cond := c.truth(c.node(n.Cond))
	a, b := cond, c.node(n.Exp2)
	if n.Exp1 != n.Cond { // in a ?: b, both are a
		a = c.node(n.Exp1)
	}
	if cond.Const {
		if cond.Value == true {
			return a
		}
		return b
	}
	return Node{
		at: n, Kinds: a.Kinds | b.Kinds, Offset: cond.Offset, secret: a.secret || b.secret,
		Scalar: choiceScalar(cond.Scalar, a.Scalar, b.Scalar),
		Write:  choiceWrite(cond, a, b),
		eval: func(f *Frame) any {
			if cond.eval(f) == true {
				return a.eval(f)
			}
			return b.eval(f)
		},
	}
}
