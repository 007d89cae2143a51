package bloblang

// outcome is the result of an expression: a value, deleted(), nothing(), a throw(), or one of two outcomes by a
// condition.
type outcome struct {
	what    result
	value   expression
	node    node // of a value or a throw
	env     *env
	when    expression
	yes, no *outcome
}

type result int

const (
	aValue result = iota
	aDeletion
	aNothing
	aThrow
	aChoice
)

// maxCases bounds the cases of an expression, since the text of ?: repeats them.
const maxCases = 300

// tree translates a node to its outcome.
func (t *translator) tree(n node, e *env) *outcome {
	switch n := n.(type) {
	case *ifElse:
		if len(n.whens) > maxCases {
			break
		}
		var last *outcome
		if len(n.values) > len(n.whens) {
			last = t.tree(n.values[len(n.values)-1], e)
		} else {
			last = &outcome{what: aNothing}
		}
		// Conditions are translated in the order written, so that notes are in order.
		choices := make([]*outcome, len(n.whens))
		for i, when := range n.whens {
			choices[i] = &outcome{what: aChoice, when: t.condition(when, e), yes: t.tree(n.values[i], e)}
		}
		return chain(choices, last)
	case *match:
		if len(n.cases) > maxCases {
			break
		}
		return t.match(n, e)
	case *call:
		switch {
		case n.of == nil && n.name == "deleted":
			return &outcome{what: aDeletion}
		case n.of == nil && n.name == "nothing":
			return &outcome{what: aNothing}
		case n.of == nil && n.name == "throw" && len(n.args) == 1:
			return &outcome{what: aThrow, node: n, env: e, value: t.expr(n, e)}
		case n.of != nil && (n.name == "or" || n.name == "catch") && len(n.args) == 1:
			if o := t.fallback(n, n.of, n.args[0].value, n.name == "or", e); o != nil {
				return o
			}
		}
	case *binary:
		if n.op == "|" {
			if o := t.fallback(n, n.left, n.right, true, e); o != nil {
				return o
			}
		}
	case *variable:
		if u := t.vars[n.name]; u != nil && u.inline != nil {
			return t.tree(u.inline.value, u.inline.env)
		}
	}
	return &outcome{what: aValue, value: t.expr(n, e), node: n, env: e}
}

func chain(choices []*outcome, last *outcome) *outcome {
	for i := len(choices) - 1; i >= 0; i-- {
		choices[i].no = last
		last = choices[i]
	}
	return last
}

// fallback returns a value or, where it fails (or, with orNull, is null), deleted() or nothing(). It returns nil if
// the other value is an ordinary one.
func (t *translator) fallback(n, value, other node, orNull bool, e *env) *outcome {
	c, ok := other.(*call)
	if !ok || c.of != nil || c.name != "deleted" && c.name != "nothing" {
		return nil
	}
	x := t.attempt(value, e)
	if !orNull && !x.path {
		// catch passes null. Distinguishing null from a failure would take a second evaluation, so null counts as a
		// failure.
		t.differs(n, "A null counts as a failure for this catch, as in or().")
	}
	o := t.tree(other, e)
	there := &outcome{what: aValue, value: x, node: value, env: e}
	return &outcome{what: aChoice, when: compare(x, "!=", nilExpression()), yes: there, no: o}
}

func (t *translator) match(n *match, e *env) *outcome {
	m := e.this
	inner := e
	if n.subject != nil {
		m = t.meaningOf(n.subject, e)
		if m == nil {
			x := t.expr(n.subject, e)
			m = &meaning{what: anExpression, text: x.in(bindWhole), kind: x.kind}
		}
		inner = e.with(m)
	}
	choices := make([]*outcome, 0, len(n.cases))
	last := &outcome{what: aNothing}
	mixed := mixedCases(n)
	for _, c := range n.cases {
		if c.when == nil {
			last = t.tree(c.value, inner)
			break
		}
		when := t.caseCondition(c.when, m, inner, mixed)
		choices = append(choices, &outcome{what: aChoice, when: when, yes: t.tree(c.value, inner)})
	}
	return chain(choices, last)
}

// mixedCases reports whether a match compares with values of several kinds. A subject of another kind equals none of
// them, so flowd must check the kind first.
func mixedCases(n *match) bool {
	kinds := map[string]bool{}
	for _, c := range n.cases {
		if l, ok := c.when.(*literal); ok && l.value != nil {
			kinds[guard(l.value)] = true
		}
	}
	return len(kinds) > 1
}

// guard checks that something has the kind of a value.
func guard(value any) string {
	switch value.(type) {
	case string:
		return `== "string"`
	case bool:
		return `== "bool"`
	}
	return `in ["int", "float"]`
}

func (t *translator) caseCondition(n node, m *meaning, e *env, mixed bool) expression {
	if isLiteral(n) {
		subject := t.mean(m, n)
		x := compare(subject, "==", t.expr(n, e))
		if l, ok := n.(*literal); ok && mixed && l.value != nil {
			return and(expression{text: "type(" + subject.text + ") " + guard(l.value), bind: bindCompare, kind: boolean}, x)
		}
		return x
	}
	x := t.expr(n, e)
	if x.kind != boolean {
		return compare(x, "==", expression{text: "true", bind: bindWhole, kind: boolean, safe: true})
	}
	return x
}

// isLiteral reports whether a case is a value to compare with, not a condition.
func isLiteral(n node) bool {
	switch n := n.(type) {
	case *literal:
		return true
	case *list:
		for _, item := range n.items {
			if !isLiteral(item) {
				return false
			}
		}
		return true
	case *object:
		for i := range n.keys {
			if !isLiteral(n.keys[i]) || !isLiteral(n.values[i]) {
				return false
			}
		}
		return true
	case *unary:
		return n.op == "-" && isLiteral(n.of)
	}
	return false
}

// condition translates the condition of an if, where null counts as false.
func (t *translator) condition(n node, e *env) expression {
	x := t.expr(n, e)
	if x.kind == boolean || !x.safe || x.isLit {
		return x
	}
	return expression{text: x.in(bindWhole) + " ?? false", bind: bindTernary, kind: boolean, safe: true, notAs: coalesced}
}

// special reports whether an outcome may be something other than a value or a failure.
func (o *outcome) special() bool {
	switch o.what {
	case aDeletion, aNothing:
		return true
	case aChoice:
		return o.yes.special() || o.no.special()
	}
	return false
}

func (o *outcome) has(what result) bool {
	if o.what == aChoice {
		return o.yes.has(what) || o.no.has(what)
	}
	return o.what == what
}

// gone reports whether an outcome is always deleted() or nothing().
func (o *outcome) gone() bool { return o.what == aDeletion || o.what == aNothing }

func isNothing(o *outcome) bool { return o.what == aNothing }

// expression returns the value of an outcome that is not special.
func (o *outcome) expression() expression {
	if o.what != aChoice {
		return o.value
	}
	return ternary(o.when, o.yes.expression(), o.no.expression())
}

// present returns the condition for a value, and the value.
func (o *outcome) present() (when, value expression) {
	return o.condition(func(o *outcome) bool { return !o.gone() }), o.only(func(o *outcome) bool { return !o.gone() })
}

// only returns the expression of the outcomes for which is returns true, without the others.
func (o *outcome) only(is func(*outcome) bool) expression {
	if o.what != aChoice {
		return o.value
	}
	yes, no := o.yes.any(is), o.no.any(is)
	switch {
	case yes && no:
		return ternary(o.when, o.yes.only(is), o.no.only(is))
	case yes:
		return o.yes.only(is)
	}
	return o.no.only(is)
}

func (o *outcome) any(is func(*outcome) bool) bool {
	if o.what == aChoice {
		return o.yes.any(is) || o.no.any(is)
	}
	return is(o)
}

func (o *outcome) all(is func(*outcome) bool) bool {
	return !o.any(func(o *outcome) bool { return !is(o) })
}

// condition returns when an outcome occurs for which is returns true. That must not be always or never.
func (o *outcome) condition(is func(*outcome) bool) expression {
	truth := func(b string) expression { return whole(b, boolean) }
	if o.what != aChoice {
		if is(o) {
			return truth("true")
		}
		return truth("false")
	}
	yesAll, yesNone := o.yes.all(is), !o.yes.any(is)
	noAll, noNone := o.no.all(is), !o.no.any(is)
	when := o.when
	switch {
	case yesAll && noAll:
		return truth("true")
	case yesNone && noNone:
		return truth("false")
	case yesAll && noNone:
		return when
	case yesNone && noAll:
		return when.negated()
	case yesAll:
		return or(when, o.no.condition(is))
	case noAll:
		return or(when.negated(), o.yes.condition(is))
	case yesNone:
		return and(when.negated(), o.no.condition(is))
	case noNone:
		return and(when, o.yes.condition(is))
	}
	return ternary(when, o.yes.condition(is), o.no.condition(is))
}
