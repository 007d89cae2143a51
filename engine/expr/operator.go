package expr

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// binaryOps are the operators of two values, except logic, ??, matches and ranges.
var binaryOps = map[string]struct {
	types value.Operands
	run   func(s *site, a, b any) any
	weigh int // the operand that its time grows with: 0 none, 1 left, 2 right, 3 the shorter
}{
	"==": {value.EqualTypes, func(s *site, a, b any) any { return s.equal(a, b) }, 3},
	"!=": {value.EqualTypes, func(s *site, a, b any) any { return !s.equal(a, b) }, 3},
	"<":  {value.OrderTypes, func(s *site, a, b any) any { return s.order(a, b) < 0 }, 3},
	"<=": {value.OrderTypes, func(s *site, a, b any) any { return s.order(a, b) <= 0 }, 3},
	">":  {value.OrderTypes, func(s *site, a, b any) any { return s.order(a, b) > 0 }, 3},
	">=": {value.OrderTypes, func(s *site, a, b any) any { return s.order(a, b) >= 0 }, 3},
	"in": {value.InTypes, func(s *site, a, b any) any {
		is, ok := value.IsIn(a, b)
		if list, isList := b.([]any); !ok && isList {
			s.fail("cannot look for %s in a list of %s", s.left(a), kindsIn(list))
		}
		if !ok {
			s.mismatch(a, b)
		}
		return is
	}, 2},
	"contains":   {textTypes, textOp(strings.Contains), 1},
	"startsWith": {textTypes, textOp(strings.HasPrefix), 2},
	"endsWith":   {textTypes, textOp(strings.HasSuffix), 2},
	"+":          {addTypes, add, 0},
	"-":          {subtractTypes, subtract, 0},
	"*":          {multiplyTypes, multiply, 0},
	"/":          {divideTypes, divide, 0},
	"%":          {moduloTypes, modulo, 0},
	"**":         {powerTypes, power, 0},
	"^":          {powerTypes, power, 0},
}

var textTypes = value.Operands{{value.Text, value.Text, value.Bool}}

func textOp(is func(s, part string) bool) func(s *site, a, b any) any {
	return func(s *site, a, b any) any {
		x, xok := a.(string)
		y, yok := b.(string)
		if !xok || !yok {
			return s.mismatch(a, b)
		}
		return is(x, y)
	}
}

func (s *site) equal(a, b any) bool {
	eq, ok := value.Equal(a, b)
	if !ok {
		s.mismatch(a, b)
	}
	return eq
}

func (s *site) order(a, b any) int {
	c, ok := value.Order(a, b)
	if !ok {
		s.mismatch(a, b)
	}
	return c
}

// operator compiles a binary operator.
func (c *compiler) operator(n *ast.BinaryNode) node {
	switch n.Operator {
	case "and", "&&", "or", "||":
		return c.logic(n)
	case "??":
		return c.coalesce(n)
	case "matches":
		return c.matches(n)
	case "..":
		return c.span(n)
	}
	op, ok := binaryOps[n.Operator]
	if !ok {
		fail(c.offset(n), "unknown operator %s", n.Operator)
	}
	l, r := c.node(n.Left), c.node(n.Right)
	s := &site{offset: c.offset(n), name: n.Operator, secret: [2]bool{l.secret, r.secret}}
	out := op.types.Result(l.kinds, r.kinds)
	if out == 0 && negated(n.Left) {
		s.failFor("put brackets around what is negated: not (a > b)", "%s",
			s.sentence(s.known(0, l), s.known(1, r)))
	}
	if out == 0 {
		s.clash(l.kinds, r.kinds, s.known(0, l), s.known(1, r))
	}
	x, y := l, r
	switch {
	case op.weigh == 1 && !l.konst, op.weigh == 3 && !l.konst && !r.konst && !fixed(l) && !fixed(r):
		x = c.weighed(n, l)
	case op.weigh == 2 && !r.konst:
		y = c.weighed(n, r)
	case n.Operator == "in" && !l.konst:
		elements, _ := r.value.([]any)
		x = c.stepped(n, l, len(elements))
	case n.Operator == "+" && out&value.Text != 0:
		x, y = c.added(n, l, r), c.added(n, r, l)
	}
	run, short := func(a, b any) any { return op.run(s, a, b) }, operationOf(n.Operator, l, r)
	if n.Operator == "in" && r.konst {
		quick := among(r.value)
		short = l.scalar.then(quick)
		run = func(a, b any) any {
			if text, ok := a.(string); ok && quick != nil {
				if is, ok := quick(textScalar(text)); ok {
					return is.is()
				}
			}
			return op.run(s, a, b)
		}
	}
	v := c.binary(n, out, x, y, run)
	if !v.konst {
		v.scalar = short
	}
	return v
}

// negated says whether a value is a `not` without brackets around it, which
// binds closer than a comparison.
func negated(n ast.Node) bool {
	u, ok := n.(*ast.UnaryNode)
	return ok && (u.Operator == "not" || u.Operator == "!")
}

// kindsIn are the kinds of a list's elements.
func kindsIn(list []any) value.Kinds {
	var k value.Kinds
	for _, v := range list {
		k |= value.KindOf(v)
	}
	return k
}

// fixed says whether values have a size that no message chooses.
func fixed(n node) bool { return n.kinds&(value.Text|value.Big|value.List|value.Object) == 0 }

// weighed charges for the size of a value that an operation goes through.
func (c *compiler) weighed(at ast.Node, n node) node {
	offset := c.offset(at)
	return c.unary(at, n.kinds, n, func(f *frame, v any) any {
		f.weigh(offset, v)
		return v
	})
}

// stepped charges a fixed amount.
func (c *compiler) stepped(at ast.Node, n node, steps int) node {
	if steps == 0 {
		return n
	}
	offset := c.offset(at)
	return c.unary(at, n.kinds, n, func(f *frame, v any) any {
		f.step(offset, steps)
		return v
	})
}

// added charges for a text that another is added to, before they are copied. A constant is charged for with the other:
// one may be as large as the budget at load.
func (c *compiler) added(at ast.Node, n, other node) node {
	if n.konst || n.kinds&value.Text == 0 {
		return n
	}
	constant, _ := other.value.(string)
	return c.charged(at, n, func(f *frame, offset, size int) { f.bytes(offset, size+len(constant), 1) })
}

// charged charges for the size of a value that is a text.
func (c *compiler) charged(at ast.Node, n node, charge func(f *frame, offset, size int)) node {
	offset := c.offset(at)
	return c.unary(at, n.kinds, n, func(f *frame, v any) any {
		if text, ok := v.(string); ok {
			charge(f, offset, len(text))
		}
		return v
	})
}

// known is what can be said about an operand before there is a message.
func (s *site) known(i int, n node) string {
	if n.konst {
		return s.show(i, n.value)
	}
	return n.kinds.String()
}

func (c *compiler) prefix(n *ast.UnaryNode) node {
	if of, ok := n.Node.(*ast.IntegerNode); ok && n.Operator == "-" && c.least[of.Location().From] {
		return c.constant(n, math.MinInt)
	}
	x := c.node(n.Node)
	s := &site{offset: c.offset(n), name: n.Operator, secret: [2]bool{x.secret}}
	if negated(n) {
		x = c.truth(x)
		not := c.unary(n, value.Bool, x, func(_ *frame, v any) any { return !v.(bool) })
		if !not.konst {
			not.scalar = x.scalar.then(scalar.not)
		}
		return not
	}
	out := x.kinds & (value.Int | value.Float | value.Duration)
	if out == 0 {
		s.fail("cannot use %s on %s", s.name, s.known(0, x))
	}
	if n.Operator == "+" {
		return c.unary(n, out, x, func(_ *frame, v any) any { return plus(s, v) })
	}
	v := c.unary(n, out, x, func(_ *frame, v any) any { return negate(s, v) })
	if !v.konst {
		v.scalar = x.scalar.then(scalar.negated)
	}
	return v
}

// span is a range of integers.
func (c *compiler) span(n *ast.BinaryNode) node {
	l, r := c.node(n.Left), c.node(n.Right)
	s := &site{offset: c.offset(n), name: "..", secret: [2]bool{l.secret, r.secret}}
	if l.kinds&(value.Int|value.Float) == 0 || r.kinds&(value.Int|value.Float) == 0 {
		s.clash(l.kinds, r.kinds, s.known(0, l), s.known(1, r))
	}
	return c.call(n, value.List, []node{l, r}, true, func(f *frame, args []any) any {
		from, ok := value.AsWhole(args[0])
		to, ok2 := value.AsWhole(args[1])
		if !ok || !ok2 {
			return s.mismatch(args[0], args[1])
		}
		if to < from {
			return []any{}
		}
		n := uint64(to) - uint64(from) // one less than there are
		if n >= uint64(f.memory)/elementSize {
			f.tooMuch(s.offset)
		}
		f.alloc(s.offset, int(n+1)*elementSize)
		f.step(s.offset, int(n>>3))
		list := make([]any, n+1)
		for i := range list {
			list[i] = from + i
		}
		return list
	})
}

// cut is a part of a text, in characters, or of a list. Like expr's it takes
// negative positions from the end and never fails on positions out of range.
func cut(s *site, v, from, to any) any {
	switch v := v.(type) {
	case string:
		n := utf8.RuneCountInString(v)
		a, b := bounds(s, n, from, to)
		if n == len(v) {
			return v[a:b]
		}
		v = v[value.PrefixLen(v, a):]
		return v[:value.PrefixLen(v, b-a)]
	case []any:
		a, b := bounds(s, len(v), from, to)
		return v[a:b:b]
	case []byte:
		a, b := bounds(s, len(v), from, to)
		return v[a:b:b]
	}
	s.fail("cannot take a part of %s", s.left(v))
	return nil
}

func bounds(s *site, n int, from, to any) (a, b int) {
	position := func(v any, missing int) int {
		switch v := v.(type) {
		case nil:
			return missing
		case int:
			if v < 0 {
				v += n
			}
			return min(max(v, 0), n)
		case float64:
			if v != math.Trunc(v) {
				break
			}
			if v < 0 {
				v += float64(n)
			}
			return int(min(max(v, 0), float64(n)))
		}
		s.fail("a position is a whole number, not %s", s.left(v))
		return 0
	}
	b = position(to, n)
	return min(position(from, 0), b), b
}
