package lang

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
	run   func(s *Site, a, b any) any
	weigh int // the operand whose size is charged for: 0 none, 1 left, 2 right, 3 either, as the shorter one decides
}{
	"==": {value.EqualTypes, func(s *Site, a, b any) any { return s.equal(a, b) }, 3},
	"!=": {value.EqualTypes, func(s *Site, a, b any) any { return !s.equal(a, b) }, 3},
	"<":  {value.OrderTypes, func(s *Site, a, b any) any { return s.order(a, b) < 0 }, 3},
	"<=": {value.OrderTypes, func(s *Site, a, b any) any { return s.order(a, b) <= 0 }, 3},
	">":  {value.OrderTypes, func(s *Site, a, b any) any { return s.order(a, b) > 0 }, 3},
	">=": {value.OrderTypes, func(s *Site, a, b any) any { return s.order(a, b) >= 0 }, 3},
	"in": {value.InTypes, func(s *Site, a, b any) any {
		is, ok := value.IsIn(a, b)
		if list, isList := b.([]any); !ok && isList {
			s.Fail("cannot look for %s in a list of %s", s.Show(a), kindsIn(list))
		}
		if !ok {
			s.failMismatch(a, b)
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

func textOp(is func(s, part string) bool) func(s *Site, a, b any) any {
	return func(s *Site, a, b any) any {
		x, xok := a.(string)
		y, yok := b.(string)
		if !xok || !yok {
			return s.failMismatch(a, b)
		}
		return is(x, y)
	}
}

func (s *Site) equal(a, b any) bool {
	eq, ok := value.Equal(a, b)
	if !ok {
		s.failMismatch(a, b)
	}
	return eq
}

func (s *Site) order(a, b any) int {
	c, ok := value.Order(a, b)
	if !ok {
		s.failMismatch(a, b)
	}
	return c
}

// operator compiles a binary operator.
func (c *compiler) operator(n *ast.BinaryNode) Node {
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
	s := &Site{Offset: c.offset(n), Name: n.Operator, Secret: [2]bool{l.secret, r.secret}}
	out := op.types.Result(l.Kinds, r.Kinds)
	if out == 0 && negated(n.Left) {
		s.FailWith("put brackets around what is negated: not (a > b)", "%s",
			s.sentence(s.ShowNode(0, l), s.ShowNode(1, r)))
	}
	if out == 0 {
		s.failKinds(l.Kinds, r.Kinds, s.ShowNode(0, l), s.ShowNode(1, r))
	}
	x, y := l, r
	switch {
	case op.weigh == 1 && !l.Const, op.weigh == 3 && !l.Const && !r.Const && !fixed(l) && !fixed(r):
		x = c.weighed(n, l)
	case op.weigh == 2 && !r.Const:
		y = c.weighed(n, r)
	case n.Operator == "in" && !l.Const:
		elements, _ := r.Value.([]any)
		x = c.stepped(n, l, len(elements))
	case n.Operator == "+" && out&value.Text != 0:
		x, y = c.added(n, l, r), c.added(n, r, l)
	}
	run, short := func(a, b any) any { return op.run(s, a, b) }, operationOf(n.Operator, l, r)
	if n.Operator == "in" && r.Const {
		quick := among(r.Value)
		short = l.Scalar.Then(quick)
		run = func(a, b any) any {
			if text, ok := a.(string); ok && quick != nil {
				if is, ok := quick(TextScalar(text)); ok {
					return is.is()
				}
			}
			return op.run(s, a, b)
		}
	}
	v := c.binary(n, out, x, y, run)
	if !v.Const {
		v.Scalar = short
	}
	return v
}

// negated says whether n is a `not` without brackets around it. `not` binds more tightly than a comparison.
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

// fixed says whether no message can make the value of a node large.
func fixed(n Node) bool { return n.Kinds&(value.Text|value.Big|value.List|value.Object) == 0 }

// weighed charges for going through the value of a node.
func (c *compiler) weighed(at ast.Node, n Node) Node {
	offset := c.offset(at)
	return c.unary(at, n.Kinds, n, func(f *Frame, v any) any {
		f.chargeWalk(offset, v)
		return v
	})
}

// stepped charges a fixed amount.
func (c *compiler) stepped(at ast.Node, n Node, steps int) Node {
	if steps == 0 {
		return n
	}
	offset := c.offset(at)
	return c.unary(at, n.Kinds, n, func(f *Frame, v any) any {
		f.Step(offset, steps)
		return v
	})
}

// added charges for a text to which another is added, before both are copied. A constant is charged for together with the other
// operand, as it may be large, too.
func (c *compiler) added(at ast.Node, n, other Node) Node {
	if n.Const || n.Kinds&value.Text == 0 {
		return n
	}
	constant, _ := other.Value.(string)
	return c.charged(at, n, func(f *Frame, offset, size int) { f.ChargeBytes(offset, size+len(constant), 1) })
}

// charged calls charge with the size of each text that is the value of a node.
func (c *compiler) charged(at ast.Node, n Node, charge func(f *Frame, offset, size int)) Node {
	offset := c.offset(at)
	return c.unary(at, n.Kinds, n, func(f *Frame, v any) any {
		if text, ok := v.(string); ok {
			charge(f, offset, len(text))
		}
		return v
	})
}

// ShowNode is how errors at load show an operand: a constant by its value, anything else by its kinds.
func (s *Site) ShowNode(i int, n Node) string {
	if n.Const {
		return s.showOperand(i, n.Value)
	}
	return n.Kinds.String()
}

func (c *compiler) prefix(n *ast.UnaryNode) Node {
	if of, ok := n.Node.(*ast.IntegerNode); ok && n.Operator == "-" && c.least[of.Location().From] {
		return c.constant(n, math.MinInt)
	}
	x := c.node(n.Node)
	s := &Site{Offset: c.offset(n), Name: n.Operator, Secret: [2]bool{x.secret}}
	if negated(n) {
		x = c.truth(x)
		not := c.unary(n, value.Bool, x, func(_ *Frame, v any) any { return !v.(bool) })
		if !not.Const {
			not.Scalar = x.Scalar.Then(Scalar.not)
		}
		return not
	}
	out := x.Kinds & (value.Int | value.Float | value.Duration)
	if out == 0 {
		s.Fail("cannot use %s on %s", s.Name, s.ShowNode(0, x))
	}
	if n.Operator == "+" {
		return c.unary(n, out, x, func(_ *Frame, v any) any { return plus(s, v) })
	}
	v := c.unary(n, out, x, func(_ *Frame, v any) any { return negate(s, v) })
	if !v.Const {
		v.Scalar = x.Scalar.Then(Scalar.negated)
	}
	return v
}

// span is a range of integers.
func (c *compiler) span(n *ast.BinaryNode) Node {
	l, r := c.node(n.Left), c.node(n.Right)
	s := &Site{Offset: c.offset(n), Name: "..", Secret: [2]bool{l.secret, r.secret}}
	if l.Kinds&(value.Int|value.Float) == 0 || r.Kinds&(value.Int|value.Float) == 0 {
		s.failKinds(l.Kinds, r.Kinds, s.ShowNode(0, l), s.ShowNode(1, r))
	}
	return c.call(n, value.List, []Node{l, r}, true, func(f *Frame, args []any) any {
		from, ok := value.AsWhole(args[0])
		to, ok2 := value.AsWhole(args[1])
		if !ok || !ok2 {
			return s.failMismatch(args[0], args[1])
		}
		if to < from {
			return []any{}
		}
		n := uint64(to) - uint64(from) // one less than there are
		if n >= uint64(f.memory)/ElementSize {
			f.FailMemory(s.Offset)
		}
		f.Alloc(s.Offset, int(n+1)*ElementSize)
		f.Step(s.Offset, int(n>>3))
		list := make([]any, n+1)
		for i := range list {
			list[i] = from + i
		}
		return list
	})
}

// Slice is a part of a text, in characters, or of a list. Like expr's it takes
// negative positions from the end and never fails on positions out of range.
func Slice(s *Site, v, from, to any) any {
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
	s.Fail("cannot take a part of %s", s.Show(v))
	return nil
}

func bounds(s *Site, n int, from, to any) (a, b int) {
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
		s.Fail("a position is a whole number, not %s", s.Show(v))
		return 0
	}
	b = position(to, n)
	return min(position(from, 0), b), b
}
