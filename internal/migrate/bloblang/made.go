package bloblang

import (
	"slices"
	"strings"
)

// made is the document that statements build, as an expression.
type made struct {
	whole  *expression // its base, if it has more than the fields
	fields *fieldsMade // the assigned fields
	gone   bool        // deleted
}

// fieldsMade is an object being built.
type fieldsMade struct {
	names  []string
	value  map[string]expression
	inner  map[string]*fieldsMade
	absent map[string]expression // condition under which a field exists, if it may be missing
}

func newFields() *fieldsMade {
	return &fieldsMade{value: map[string]expression{}, inner: map[string]*fieldsMade{}, absent: map[string]expression{}}
}

func (o *fieldsMade) set(path []string, x expression, when *expression) bool {
	name := path[0]
	if !slices.Contains(o.names, name) {
		o.names = append(o.names, name)
	}
	if len(path) > 1 {
		if _, ok := o.value[name]; ok {
			return false
		}
		if o.inner[name] == nil {
			o.inner[name] = newFields()
		}
		return o.inner[name].set(path[1:], x, when)
	}
	delete(o.inner, name)
	if _, ok := o.value[name]; ok && when != nil {
		return false
	}
	o.value[name] = x
	delete(o.absent, name)
	if when != nil {
		o.absent[name] = *when
	}
	return true
}

// has reports whether a path, or a part of it, was set.
func (o *fieldsMade) has(path []string) bool {
	if _, ok := o.value[path[0]]; ok {
		return true
	}
	in := o.inner[path[0]]
	return in != nil && (len(path) == 1 || in.has(path[1:]))
}

// unset removes a field. It can't remove one from a value that was not built here.
func (o *fieldsMade) unset(path []string) bool {
	name := path[0]
	if len(path) > 1 {
		if _, ok := o.value[name]; ok {
			return false
		}
		return o.inner[name] == nil || o.inner[name].unset(path[1:])
	}
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
	delete(o.value, name)
	delete(o.inner, name)
	delete(o.absent, name)
	return true
}

func (o *fieldsMade) expression() expression {
	var fixed, maybe []string
	for _, name := range o.names {
		x, ok := o.value[name]
		if !ok {
			x = o.inner[name].expression()
		}
		f := objectKey(name) + ": " + x.arg()
		if when, ok := o.absent[name]; ok {
			maybe = append(maybe, when.in(bindOr)+" ? {"+f+"} : {}")
		} else {
			fixed = append(fixed, f)
		}
	}
	s := "{" + strings.Join(fixed, ", ") + "}"
	for _, m := range maybe {
		s = "merge(" + s + ", " + m + ")"
	}
	return expression{text: s, bind: bindWhole, kind: objectKind}
}

// computed writes statements as one expression.
func (t *translator) computed(list []Statement, e *env, at int) expression {
	m := &made{}
	var lets, locals []string
	defer func() {
		for _, name := range locals {
			t.free(name)
		}
	}()
	x := t.carry(m, list, e, &lets, &locals)
	if x != nil {
		return *x
	}
	r := m.result()
	if r == nil {
		return t.untranslated(place(at), "This has no value in every case.")
	}
	if len(lets) > 0 {
		t.scoped -= len(lets)
		r = &expression{text: strings.Join(lets, "") + r.text, bind: bindLet, kind: r.kind}
	}
	return *r
}

func (m *made) result() *expression {
	switch {
	case m.gone:
		return nil
	case m.whole == nil && m.fields == nil:
		return nil
	case m.whole == nil:
		x := m.fields.expression()
		return &x
	case m.fields == nil:
		return m.whole
	}
	x := function("merge", objectKind, *m.whole, m.fields.expression())
	return &x
}

// carry applies statements to a document. If it returns an expression, that replaces everything, since a statement
// can't be translated.
func (t *translator) carry(m *made, list []Statement, e *env, lets, locals *[]string) *expression {
	refuse := func(s Statement, why string) *expression {
		x := t.untranslated(place(s.at().from), "%s", why)
		return &x
	}
	for i, s := range list {
		switch s := s.(type) {
		case *let:
			uses, name := 0, s.name
			each(list[i+1:], func(s Statement) {
				for _, n := range valuesOf(s) {
					uses += reading(n, name)
				}
			})
			if uses <= 1 || trivial(s.value) {
				t.vars = cloned(t.vars)
				t.vars[s.name] = &variableUse{inline: &inlined{s.value, e}}
				continue
			}
			x := t.expr(s.value, e)
			name = t.local(name)
			*locals = append(*locals, name)
			*lets = append(*lets, "let "+name+" = "+x.in(bindTernary)+"; ")
			t.scoped++
			t.vars = cloned(t.vars)
			t.vars[s.name] = &variableUse{local: name}
		case *assign:
			if x := t.put(m, s, e, refuse); x != nil {
				return x
			}
		case *branches:
			// Each branch gets the rest of the statements.
			return t.branch(m, s, list[i+1:], e)
		case *setMeta:
			return refuse(s, "Metadata can't be set in a map.")
		case *define, *imports:
		}
	}
	return nil
}

// reading counts how often a node reads a variable.
func reading(n node, name string) int {
	count := 0
	walk(n, func(n node) bool {
		if v, ok := n.(*variable); ok && v.name == name {
			count++
		}
		return true
	})
	return count
}

func cloned(m map[string]*variableUse) map[string]*variableUse {
	c := map[string]*variableUse{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// trivial reports whether a value may be repeated.
func trivial(n node) bool {
	switch n := n.(type) {
	case *literal, *this, *metaRef, *variable, *placeholder:
		return true
	case *field:
		return trivial(n.of)
	}
	return false
}

func (t *translator) put(m *made, s *assign, e *env, refuse func(Statement, string) *expression) *expression {
	o := t.tree(s.value, e)
	if len(s.path) == 0 {
		switch {
		case o.what == aDeletion:
			m.gone = true
		case o.what == aNothing:
		case !o.special():
			x := o.expression()
			*m = made{whole: &x}
		case !o.has(aDeletion) && m.result() != nil:
			keep(o, *m.result())
			x := o.expression()
			*m = made{whole: &x}
		default:
			return refuse(s, "This has no value in every case, so that it can't be an expression.")
		}
		return nil
	}
	if o.what == aNothing {
		return nil
	}
	if m.whole == nil && m.fields == nil {
		m.fields = newFields()
	}
	switch {
	case o.what == aDeletion && m.whole == nil:
		if !m.fields.unset(s.path) {
			return refuse(s, "Part of a field that was assigned is deleted, which can't be an expression.")
		}
		return nil
	case o.what == aDeletion:
		x := function("without", objectKind, *m.result(), literalText(path(s.path)))
		*m = made{whole: &x}
		return nil
	case o.has(aDeletion) && (m.whole != nil || m.fields.has(s.path)):
		return refuse(s, "A field that is only sometimes deleted can't be an expression.")
	}
	var when *expression
	var x expression
	if o.special() {
		w, v := o.present()
		when, x = &w, v
	} else {
		x = o.expression()
	}
	if m.whole == nil {
		if !m.fields.set(s.path, x, when) {
			return refuse(s, "A field that is set twice can't be an expression.")
		}
		return nil
	}
	// merge() would merge an object into the existing one.
	base := *m.result()
	*m = made{whole: &base}
	one := newFields()
	one.set(s.path, x, when)
	if when == nil && x.kind != text && x.kind != number && x.kind != boolean && x.kind != timeKind {
		base = function("without", objectKind, base, literalText(path(s.path)))
	}
	y := function("merge", objectKind, base, one.expression())
	*m = made{whole: &y}
	return nil
}

// branch writes an if statement, and the statements after it, as ?:.
func (t *translator) branch(m *made, s *branches, rest []Statement, e *env) *expression {
	if t.depthOfBranches++; t.depthOfBranches > 6 {
		x := t.untranslated(place(s.from), "So many conditions can't be one expression; write them as steps.")
		return &x
	}
	defer func() { t.depthOfBranches-- }()
	type arm struct {
		when *expression
		x    expression
	}
	var arms []arm
	complete := false
	for i := 0; i <= len(s.cases); i++ {
		var do []Statement
		var when *expression
		if i < len(s.cases) {
			do = s.cases[i].do
			if s.cases[i].when != nil {
				w := t.expr(s.cases[i].when, e)
				when = &w
			} else {
				complete = true
			}
		} else if complete {
			break
		}
		copied := made{whole: m.whole, gone: m.gone}
		if m.fields != nil {
			r := *m.result()
			copied = made{whole: &r}
		}
		var lets, locals []string
		vars := t.vars
		x := t.carry(&copied, append(slices.Clone(do), rest...), e, &lets, &locals)
		for _, name := range locals {
			t.free(name)
		}
		t.vars = vars
		if x == nil {
			x = copied.result()
		}
		if x == nil {
			y := t.untranslated(place(s.from), "This has no value in every case.")
			x = &y
		}
		if len(lets) > 0 {
			t.scoped -= len(lets)
			x = &expression{text: strings.Join(lets, "") + x.text, bind: bindLet, kind: x.kind}
		}
		arms = append(arms, arm{when, *x})
	}
	all := arms[len(arms)-1].x
	for i := len(arms) - 2; i >= 0; i-- {
		all = ternary(*arms[i].when, arms[i].x, all)
	}
	return &all
}
