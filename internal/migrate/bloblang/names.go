package bloblang

import (
	"slices"
	"strings"
)

// mean writes what `this` or a name refers to.
func (t *translator) mean(m *meaning, n node) expression {
	switch m.what {
	case theDocument:
		t.reads.paths = append(t.reads.paths, nil)
		if x, ok := t.origin(); ok {
			return x
		}
		return expression{text: "this", bind: bindWhole, safe: true, path: true}
	case theRoot:
		t.reads.roots = append(t.reads.roots, nil)
		return expression{text: "this", bind: bindWhole, safe: true, path: true}
	case theError:
		t.differs(n, "An error can't be read where it is caught, so that a fixed text stands for it.")
		return literalText("failed")
	case anElement:
		if m.parts != nil {
			var fields []string
			for _, name := range []string{"key", "value", "tally", "left", "right"} {
				if what := m.parts[name]; what != "" {
					fields = append(fields, name+": "+t.capture(m.frame, what))
				}
			}
			return whole("({"+strings.Join(fields, ", ")+"})", objectKind)
		}
		return expression{text: t.capture(m.frame, m.text), bind: bindWhole, kind: m.kind, safe: true}
	}
	return expression{text: m.text, bind: bindWhole, kind: m.kind, safe: true}
}

// origin returns the place of `this`, if it is not the steps' document.
func (t *translator) origin() (expression, bool) {
	x := expression{text: t.o.This, bind: bindWhole, safe: true, path: true}
	switch {
	case !t.before:
		return x, t.o.This != ""
	case t.o.This == "":
		x.text = t.kept("")
	default:
		rest := strings.TrimPrefix(t.o.This, "this")
		if rest == t.o.This || rest[0] != '.' && rest[0] != '[' {
			rest = "." + t.o.This
		}
		x.text = t.kept("") + rest
	}
	return x, true
}

// capture writes the # of a predicate inside it, or a name for it in an inner predicate.
func (t *translator) capture(f *frame, what string) string {
	if f.depth == t.depth {
		return what
	}
	for _, c := range f.captured {
		if c.what == what {
			return c.name
		}
	}
	name := f.hint
	if what != "#" {
		name = strings.Trim(what, "#")
	}
	name = t.local(name)
	f.captured = append(f.captured, capture{what, name})
	return name
}

// local returns a name for a value in an expression, as close as possible to the wanted name, without hiding another
// one. The caller frees it at the end of its scope.
func (t *translator) local(name string) string {
	if !plainName().MatchString(name) || slices.Contains(reserved, name) {
		name = "it"
	}
	for slices.Contains(t.locals, name) {
		name += "_"
	}
	t.locals = append(t.locals, name)
	return name
}

func (t *translator) free(name string) {
	t.locals = slices.DeleteFunc(t.locals, func(n string) bool { return n == name })
}

// keptName names the variable that keeps the message, or a part of it, from before a mapping.
func (t *translator) keptName(part string) string {
	name := "before" + part
	for t.vars[name] != nil {
		name += "_"
	}
	return name
}

func (t *translator) kept(part string) string { return "vars(" + quote(t.keptName(part)) + ")" }

// field translates a chain of fields.
func (t *translator) field(n *field, e *env) expression {
	names := []string{n.name}
	of := n.of
	for {
		f, ok := of.(*field)
		if !ok {
			break
		}
		names = append(names, f.name)
		of = f.of
	}
	slices.Reverse(names)
	if slices.Contains(names, "*") {
		return t.untranslated(n, "A path with * has no counterpart; write map(list, .field).")
	}
	if c, ok := of.(*call); ok {
		if x, ok := t.partOf(c, names, e); ok {
			return x
		}
	}
	if m := t.meaningOf(of, e); m != nil {
		return t.fieldOf(m, names, of)
	}
	x := t.expr(of, e)
	return fields(x, names)
}

// fields reads fields of a value.
func fields(x expression, names []string) expression {
	s := x.in(bindWhole)
	for _, name := range names {
		s += member(name)
	}
	return expression{text: s, bind: bindWhole, safe: x.safe, path: x.path}
}

// meaningOf returns what a node refers to, if anything.
func (t *translator) meaningOf(n node, e *env) *meaning {
	switch n := n.(type) {
	case *this:
		return e.this
	case *root:
		return &meaning{what: theRoot}
	case *named:
		return e.lookup(n.name)
	}
	return nil
}

func (t *translator) fieldOf(m *meaning, names []string, n node) expression {
	switch m.what {
	case theDocument:
		t.reads.paths = append(t.reads.paths, names)
		if x, ok := t.origin(); ok {
			return fields(x, names)
		}
		return t.documentField(names)
	case theRoot:
		t.reads.roots = append(t.reads.roots, names)
		return t.documentField(names)
	case theError:
		t.differs(n, "In catch(), `this` is the error, whose fields are null; what is meant is probably the message's %s.",
			path(names))
		return nilExpression()
	case anElement:
		if m.parts != nil {
			what, ok := m.parts[names[0]]
			if !ok {
				return nilExpression()
			}
			return t.elementField(t.capture(m.frame, what), names[1:])
		}
		return t.elementField(t.capture(m.frame, m.text), names)
	}
	return fields(expression{text: m.text, bind: bindWhole, safe: true, path: true}, names)
}

// elementField writes `.name` instead of `#.name`.
func (t *translator) elementField(what string, names []string) expression {
	s := what
	for i, name := range names {
		m := member(name)
		if i == 0 && s == "#" && m[0] == '.' {
			s = ""
		}
		s += m
	}
	return expression{text: s, bind: bindWhole, safe: true}
}

func (t *translator) documentField(names []string) expression {
	s := "this"
	if t.depth == 0 && t.scoped == 0 && plainName().MatchString(names[0]) && !slices.Contains(reserved, names[0]) {
		s = names[0]
	} else {
		s += member(names[0])
	}
	for _, name := range names[1:] {
		s += member(name)
	}
	return expression{text: s, bind: bindWhole, safe: true, path: true}
}

func (t *translator) variable(n *variable) expression {
	if u := t.vars[n.name]; u != nil && u.inline != nil {
		return t.expr(u.inline.value, u.inline.env)
	}
	if u := t.vars[n.name]; u != nil && u.local != "" {
		return expression{text: u.local, bind: bindWhole, safe: true}
	}
	if t.vars[n.name] == nil {
		return t.untranslated(n, "No let gives the variable %q a value.", n.name)
	}
	t.reads.vars = append(t.reads.vars, n.name)
	return expression{text: "vars(" + quote(n.name) + ")", bind: bindWhole, safe: true}
}

func (t *translator) meta(n node, name string, all bool) expression {
	if t.edits {
		return t.newMeta(name, all)
	}
	if t.beforeMeta {
		x := expression{text: t.kept("_meta"), bind: bindWhole, safe: true, path: true}
		if all {
			return x
		}
		return fields(x, []string{name})
	}
	if all {
		t.reads.meta = append(t.reads.meta, "")
		return expression{text: "meta()", bind: bindWhole, kind: objectKind, safe: true}
	}
	t.reads.meta = append(t.reads.meta, name)
	return expression{text: "meta(" + quote(name) + ")", bind: bindWhole, safe: true}
}

// newMeta returns @: metadata as set by earlier statements.
func (t *translator) newMeta(name string, all bool) expression {
	if all {
		t.reads.newMeta = append(t.reads.newMeta, "")
		return expression{text: "meta()", bind: bindWhole, kind: objectKind, safe: true}
	}
	t.reads.newMeta = append(t.reads.newMeta, name)
	return expression{text: "meta(" + quote(name) + ")", bind: bindWhole, safe: true}
}

// within translates a body in which `this` is another value.
func (t *translator) within(of, body node, e *env) expression {
	m := t.meaningOf(of, e)
	if m == nil {
		x := t.expr(of, e)
		if !x.path && !x.isLit && t.uses(body, e) > 1 {
			return t.bound(x, body, e)
		}
		m = &meaning{what: anExpression, text: x.in(bindWhole), kind: x.kind}
	}
	return t.expr(t.enter(body, m, &e), e)
}

// enter returns the body of a lambda, or the node itself, and sets its env.
func (t *translator) enter(body node, m *meaning, e **env) node {
	if l, ok := body.(*lambda); ok {
		*e = (*e).naming(l.param, m)
		return l.body
	}
	*e = (*e).with(m)
	return body
}

// bound translates a body, with a name for a value that it uses.
func (t *translator) bound(x expression, body node, e *env) expression {
	name := "it"
	if l, ok := body.(*lambda); ok && l.param != "_" {
		name = l.param
	}
	name = t.local(name)
	defer t.free(name)
	m := &meaning{what: anExpression, text: name, kind: x.kind}
	t.scoped++
	b := t.expr(t.enter(body, m, &e), e)
	t.scoped--
	return expression{text: "let " + name + " = " + x.in(bindTernary) + "; " + b.text, bind: bindLet, kind: b.kind}
}

// uses counts how often a body reads its value.
func (t *translator) uses(body node, e *env) int {
	count := 0
	name := ""
	if l, ok := body.(*lambda); ok {
		name, body = l.param, l.body
	}
	walk(body, func(n node) bool {
		switch n := n.(type) {
		case *this:
			if name == "" {
				count++
			}
		case *named:
			if n.name == name {
				count++
			}
		case *match:
			if n.subject == nil {
				count += len(n.cases)
			}
		case *call: // a loop reads it once per element
			if n.of != nil && loops[n.name] {
				count++
			}
		}
		return true
	})
	return count
}
