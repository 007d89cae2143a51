package bloblang

import (
	"slices"
)

// A named map is a function of one value, and so is a mapping that must be a single expression. This file writes
// statements as an expression: assignments become objects, and conditions become ?:.

// apply writes a named map inline.
func apply(a *asked) expression {
	name, ok := a.text(0)
	if !ok {
		return a.unknown("The name of the map must be written here.")
	}
	m := a.maps[name]
	if m == nil {
		return a.unknown("There is no map %q here.", name)
	}
	if slices.Contains(a.applying, name) {
		return a.unknown("The map %q calls itself, which has no counterpart; walk(value, …) goes through a whole value.",
			name)
	}
	if leaf, ok := m.walks(); ok {
		x := a.of()
		a.applying = append(a.applying, name)
		defer func() { a.applying = a.applying[:len(a.applying)-1] }()
		saved, vars := a.src, a.vars
		a.src, a.vars = m.src, map[string]*variableUse{}
		defer func() { a.src, a.vars = saved, vars }()
		return function("walk", unknown, x, a.predicate(leaf, &env{this: &meaning{what: theDocument}}, element,
			func(o *outcome) expression {
				keep(o, whole("#", unknown))
				return a.values(o)
			}))
	}
	is := a.meaningOf(a.n.of, a.e)
	if is == nil {
		x := a.of()
		if !x.path && !x.isLit && len(x.text) > 12 && usesOfThis(m.statements) > 1 {
			it := a.local("it")
			defer a.free(it)
			a.scoped++
			b := a.applied(m, &meaning{what: anExpression, text: it, kind: x.kind})
			a.scoped--
			return expression{text: "let " + it + " = " + x.in(bindTernary) + "; " + b.text, bind: bindLet, kind: b.kind}
		}
		is = &meaning{what: anExpression, text: x.in(bindWhole), kind: x.kind}
	}
	return a.applied(m, is)
}

// walks reports whether a map recurses into the elements of objects and lists. leaf is what it does with other values.
func (m *namedMap) walks() (leaf node, ok bool) {
	if len(m.statements) != 1 {
		return nil, false
	}
	cases := casesOf(m.statements[0])
	rest := &match{place: place(m.pos)}
	seen := map[string]bool{}
	for _, one := range cases {
		if of := typeAsked(one.when); (of == "object" || of == "array") && m.descends(one.value, of == "object") {
			seen[of] = true
			continue
		}
		rest.cases = append(rest.cases, one)
	}
	if !seen["object"] || !seen["array"] {
		return nil, false
	}
	switch {
	case len(rest.cases) == 0:
		return &this{rest.place}, true
	case rest.cases[0].when == nil:
		return rest.cases[0].value, true
	}
	return rest, true
}

// casesOf returns the cases of a statement that gives the root a value in each of them: a match without a subject, or an if with an
// else, as a statement or an expression. It is nil for anything else.
func casesOf(s Statement) []matchCase {
	switch s := s.(type) {
	case *assign:
		switch value := s.value.(type) {
		case *match:
			if len(s.path) == 0 && value.subject == nil {
				return value.cases
			}
		case *ifElse:
			if len(s.path) > 0 || len(value.values) == len(value.whens) {
				return nil
			}
			cases := make([]matchCase, len(value.values))
			for i, v := range value.values {
				cases[i].value = v
				if i < len(value.whens) {
					cases[i].when = value.whens[i]
				}
			}
			return cases
		}
	case *branches:
		if s.cases[len(s.cases)-1].when != nil {
			return nil
		}
		var cases []matchCase
		for _, b := range s.cases {
			if len(b.do) != 1 {
				return nil
			}
			a, ok := b.do[0].(*assign)
			if !ok || len(a.path) > 0 {
				return nil
			}
			cases = append(cases, matchCase{b.when, a.value})
		}
		return cases
	}
	return nil
}

// typeAsked returns the name in this.type() == "name".
func typeAsked(n node) string {
	b, ok := n.(*binary)
	if !ok || b.op != "==" {
		return ""
	}
	c, ok := b.left.(*call)
	if !ok || c.name != "type" || c.of == nil {
		return ""
	}
	if _, ok := c.of.(*this); !ok {
		return ""
	}
	l, ok := b.right.(*literal)
	if !ok {
		return ""
	}
	s, _ := l.value.(string)
	return s
}

// descends reports whether a value is this.map_each(x), where x applies the map to the element or its value.
func (m *namedMap) descends(n node, object bool) bool {
	c, ok := n.(*call)
	if !ok || c.name != "map_each" || c.of == nil || len(c.args) != 1 {
		return false
	}
	if _, ok := c.of.(*this); !ok {
		return false
	}
	body, param := c.args[0].value, ""
	if l, ok := body.(*lambda); ok {
		body, param = l.body, l.param
	}
	a, ok := body.(*call)
	if !ok || a.name != "apply" || a.of == nil || len(a.args) != 1 {
		return false
	}
	if l, ok := a.args[0].value.(*literal); !ok || l.value != m.name {
		return false
	}
	of := a.of
	if object {
		f, ok := of.(*field)
		if !ok || f.name != "value" {
			return false
		}
		of = f.of
	}
	if v, ok := of.(*named); ok {
		return v.name == param
	}
	_, ok = of.(*this)
	return ok && param == ""
}

func (t *translator) applied(m *namedMap, is *meaning) expression {
	saved, vars, maps := t.src, t.vars, t.maps
	defer func() {
		t.src, t.vars, t.maps = saved, vars, maps
		t.applying = t.applying[:len(t.applying)-1]
	}()
	t.src, t.vars = m.src, map[string]*variableUse{}
	if m.imported != nil {
		t.maps = m.imported
	}
	t.applying = append(t.applying, m.name)
	return t.computed(m.statements, &env{this: is}, m.pos)
}

func usesOfThis(list []Statement) int {
	count := 0
	each(list, func(s Statement) {
		for _, n := range valuesOf(s) {
			walk(n, func(n node) bool {
				if _, ok := n.(*this); ok {
					count++
				}
				return true
			})
		}
	})
	return count
}

// each visits statements, and those inside them.
func each(list []Statement, visit func(Statement)) {
	for _, s := range list {
		visit(s)
		if b, ok := s.(*branches); ok {
			for _, c := range b.cases {
				each(c.do, visit)
			}
		}
	}
}

// valuesOf returns the expressions of a statement, without those of inner statements.
func valuesOf(s Statement) []node {
	switch s := s.(type) {
	case *let:
		return []node{s.value}
	case *setMeta:
		return []node{s.value}
	case *assign:
		return []node{s.value}
	case *branches:
		var all []node
		for _, c := range s.cases {
			if c.when != nil {
				all = append(all, c.when)
			}
		}
		return all
	}
	return nil
}
