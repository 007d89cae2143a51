package expr

import "github.com/expr-lang/expr/ast"

// predicate is a function that evaluates its second argument for every element
// of its first. Expr's VM has the loops.
type predicate struct {
	usage string
	doc   string
	truth bool // the second argument must be true or false
	out   kinds
}

var predicates = map[string]predicate{
	"all":    {"all(list, predicate) bool", "Whether the predicate is true for all elements.", true, kBool},
	"none":   {"none(list, predicate) bool", "Whether the predicate is true for no element.", true, kBool},
	"any":    {"any(list, predicate) bool", "Whether the predicate is true for any element.", true, kBool},
	"one":    {"one(list, predicate) bool", "Whether the predicate is true for exactly one element.", true, kBool},
	"filter": {"filter(list, predicate) list", "The elements for which the predicate is true.", true, kList},
	"find":   {"find(list, predicate) any", "The first element for which the predicate is true, or nil.", true, kAny},
	"findIndex": {"findIndex(list, predicate) int",
		"The index of the first element for which the predicate is true, or nil.", true, kInt | kNil},
	"findLast": {"findLast(list, predicate) any", "The last element for which the predicate is true, or nil.",
		true, kAny},
	"findLastIndex": {"findLastIndex(list, predicate) int",
		"The index of the last element for which the predicate is true, or nil.", true, kInt | kNil},
	"count": {"count(list, [predicate]) int",
		"The number of elements for which the predicate is true, or that are true.", true, kInt},
	"map": {"map(list, expression) list", "The results of the expression for each element.", false, kList},
	"sum": {"sum(list, [expression]) number",
		"The sum of the elements, or of the expression's results for each.", false, kInt | kFloat},
	"groupBy": {"groupBy(list, expression) object",
		"The elements in lists, grouped by the expression's result for each.", false, kObject},
	"sortBy": {"sortBy(list, expression, [text]) list",
		`The elements sorted by the expression's result for each, "asc" or "desc".`, false, kList},
	"reduce": {"reduce(list, expression, [any]) any",
		"The expression's last result; #acc is its result for the element before, at first the third argument.", false,
		kAny},
}

// predicate compiles a loop over a list.
func (c *compiler) predicate(n *ast.BuiltinNode, p predicate) node {
	s := &site{offset: c.offset(n), name: n.Name}
	list := c.elements(n, s, c.node(n.Arguments[0]))
	if n.Name == "sum" && len(n.Arguments) == 1 {
		return c.unary(n, p.out, list, func(f *frame, v any) any { return sum(s, v) })
	}
	var third []node // of sortBy or reduce
	if len(n.Arguments) == 3 {
		third = []node{c.node(n.Arguments[2])}
	}
	body := c.body(n, s, p.truth)
	switch n.Name {
	case "sum":
		return c.unary(n, p.out, c.loop(n, "map", list, body), func(f *frame, v any) any { return sum(s, v) })
	case "groupBy":
		keyed := c.loop(n, "map", list, c.keyed(n, body))
		return c.unary(n, p.out, keyed, func(f *frame, v any) any {
			groups := groupBy(f, s, v.([]any))
			f.made(s.offset, groups)
			return groups
		})
	case "sortBy":
		args := append([]node{c.loop(n, "map", list, c.keyed(n, body))}, third...)
		return c.call(n, p.out, args, true, func(f *frame, args []any) any { return sortKeyed(f, s, args) })
	case "reduce":
		if third != nil {
			return c.reduce(n, list, body, third[0])
		}
	}
	v := c.loop(n, n.Name, list, body)
	v.kinds = p.out
	return v
}

// elements checks that there is a list, and charges for going through it.
func (c *compiler) elements(n *ast.BuiltinNode, s *site, list node) node {
	s.secret[0] = list.secret
	if list.kinds&kList == 0 {
		fail(s.offset, "%s() needs a list, not %s", s.name, s.known(0, list))
	}
	makes := 0
	switch n.Name {
	case "map", "filter", "sum":
		makes = elementSize
	case "groupBy", "sortBy": // of pairs
		makes = 4 * elementSize
	}
	list.konst = false // a loop is charged for on every message
	return c.unary(n, kList, list, func(f *frame, v any) any {
		l, ok := v.([]any)
		if !ok {
			remedy := ""
			if v == nil {
				remedy = "write ?? [] for a list that may be missing"
			}
			failFor(s.offset, remedy, "%s() needs a list, not %s", s.name, s.left(v))
		}
		f.loops++
		f.step(s.offset, loopSteps+len(l)>>2)
		f.alloc(s.offset, loopSize+makes*len(l))
		return v
	})
}

// body compiles what is evaluated for each element. Each time is charged by how
// much code it is.
func (c *compiler) body(n *ast.BuiltinNode, s *site, truth bool) node {
	if c.loops = append(c.loops, n.Name); len(c.loops) > maxNested {
		fail(s.offset, "predicates are nested more than %d deep", maxNested)
	}
	defer func() { c.loops = c.loops[:len(c.loops)-1] }()
	at, before := ast.Node(n), c.nodes
	body := node{ast: vmNode(&ast.PointerNode{}, n), kinds: kAny, offset: s.offset}
	if len(n.Arguments) > 1 {
		at = n.Arguments[1]
		body = c.node(at.(*ast.PredicateNode).Node)
	}
	if truth {
		body = c.truth(body)
	}
	steps := 1 + c.nodes - before
	body.konst = false
	return c.unary(at, body.kinds, body, func(f *frame, v any) any {
		f.step(s.offset, steps)
		return v
	})
}

// keyed makes pairs of each element and what the body gives for it.
func (c *compiler) keyed(n *ast.BuiltinNode, body node) node {
	element := node{ast: vmNode(&ast.PointerNode{}, n), kinds: kAny, offset: body.offset}
	return c.binary(n, kList, element, body, func(v, key any) any { return []any{v, key} })
}

// loop is a loop of expr's VM.
func (c *compiler) loop(n *ast.BuiltinNode, name string, list, body node, more ...node) node {
	args := []ast.Node{list.ast, vmNode(&ast.PredicateNode{Node: body.ast}, n)}
	for _, m := range more {
		args = append(args, m.ast)
	}
	return node{
		ast:    vmNode(&ast.BuiltinNode{Name: name, Arguments: args}, n),
		kinds:  kAny,
		offset: c.offset(n),
		secret: list.secret || body.secret,
	}
}

// reduce is the loop with a value to begin with. Expr's VM would evaluate that
// inside the loop, where # means another element, so a variable takes it there.
func (c *compiler) reduce(n *ast.BuiltinNode, list, body, initial node) node {
	name := c.unique()
	variable := node{ast: vmNode(&ast.IdentifierNode{Value: name}, n)}
	loop := c.loop(n, n.Name, list, body, variable)
	loop.ast = vmNode(&ast.VariableDeclaratorNode{Name: name, Value: initial.ast, Expr: loop.ast}, n)
	return loop
}

// pointer is the element, its index, or what a reduce has so far.
func (c *compiler) pointer(n *ast.PointerNode) node {
	p := node{ast: vmNode(&ast.PointerNode{Name: n.Name}, n), kinds: kAny, offset: c.offset(n)}
	switch n.Name {
	case "":
	case "index":
		p.kinds = kInt
	case "acc":
		if len(c.loops) == 0 || c.loops[len(c.loops)-1] != "reduce" {
			fail(p.offset, "#acc only exists in reduce()")
		}
	default:
		failFor(p.offset, "write ."+n.Name+" for the element's field", "#%s is neither #, #index nor #acc", n.Name)
	}
	return p
}

func sum(s *site, list any) any {
	var total any = 0
	for _, v := range list.([]any) {
		s.number(v)
		total = add(s, total, v)
	}
	return total
}

func groupBy(f *frame, s *site, keyed []any) any {
	groups := map[string]any{}
	for _, v := range keyed {
		pair := v.([]any)
		var name string
		switch kindOf(pair[1]) {
		case kText:
			name = pair[1].(string)
		case kBool, kInt, kFloat, kBig:
			f.encode(s.offset, pair[1])
			name = string(appendKey(s, nil, pair[1]))
		default:
			fail(s.offset, "groupBy() needs keys that are text, numbers, true or false, not %s", s.left(pair[1]))
		}
		group, _ := groups[name].([]any)
		groups[name] = append(group, pair[0])
	}
	return groups
}

func sortKeyed(f *frame, s *site, args []any) any {
	keyed := append([]any(nil), args[0].([]any)...)
	sortBy(f, s, keyed, args[1:], func(v any) any { return v.([]any)[1] })
	for i, v := range keyed {
		keyed[i] = v.([]any)[0]
	}
	f.made(s.offset, keyed)
	return keyed
}
