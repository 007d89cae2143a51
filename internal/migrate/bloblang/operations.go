package bloblang

import (
	"maps"
	"slices"
	"strings"
)

// all plans statements in order.
func (p *planner) all(list []Statement, st *state) []operation {
	var ops []operation
	for _, s := range list {
		ops = append(ops, p.one(s, st)...)
	}
	return ops
}

// one plans a statement. If it reads what has changed, it uses the document from before the changes.
func (p *planner) one(s Statement, st *state) []operation {
	if b, ok := s.(*branches); ok {
		return p.branches(b, st)
	}
	e := p.effectOf(s)
	changed := st.replaced || p.o.Target == NewDocument && anyOverlap(e.reads.paths, st.writes.paths)
	p.before = changed && len(e.reads.paths) > 0
	p.beforeMeta = p.o.Target == NewDocument && anyMeta(e.reads.meta, st.writes.meta)
	ops := p.statement(s, st)
	if len(ops) > 0 {
		p.useBefore = p.useBefore || p.before
		p.useMeta = p.useMeta || p.beforeMeta
		p.useRaw = p.useRaw || p.beforeRaw
	}
	p.before, p.beforeRaw, p.beforeMeta = false, false, false
	st.writes.paths = append(st.writes.paths, e.writes.paths...)
	st.writes.meta = append(st.writes.meta, e.writes.meta...)
	return ops
}

func (p *planner) branches(s *branches, st *state) []operation {
	op := operation{act: chooseCase}
	notes, taken, useBefore := p.notes, maps.Clone(p.taken), p.useBefore
	written := st.writes
	replaced := st.replaced
	for i, b := range s.cases {
		c := operationCase{}
		branch := &state{writes: writes{slices.Clip(written.paths), slices.Clip(written.meta), nil}, replaced: replaced}
		if b.when != nil {
			p.reads = reads{}
			x := p.expr(b.when, p.env)
			if r := p.reads; len(r.paths) > 0 && (replaced || p.o.Target == NewDocument && anyOverlap(r.paths, written.paths)) {
				p.before, p.useBefore = true, true
				x = p.expr(b.when, p.env)
				p.before = false
			}
			c.when = &x
		}
		if i == 0 {
			p.comment(&op, &let{span: span{s.from, b.from}}, notes)
		}
		c.do = p.all(b.do, branch)
		op.cases = append(op.cases, c)
		st.writes.paths = append(st.writes.paths, branch.writes.paths...)
		st.writes.meta = append(st.writes.meta, branch.writes.meta...)
		st.replaced = st.replaced || branch.replaced
	}
	if !slices.ContainsFunc(op.cases, func(c operationCase) bool { return len(c.do) > 0 }) { // its comments go elsewhere
		p.taken, p.useBefore = taken, useBefore
		return nil
	}
	return []operation{op}
}

// statement plans a statement other than a branch.
func (p *planner) statement(s Statement, st *state) []operation {
	p.steps = 0
	notes := p.notes
	var ops []operation
	switch s := s.(type) {
	case *let:
		if u := p.vars[s.name]; u != nil && u.inline != nil {
			return nil
		}
		o := p.tree(s.value, p.env)
		if o.all(isNothing) {
			return nil
		}
		op := operation{act: setVariable, name: s.name}
		if o.has(aNothing) {
			w := o.condition(func(o *outcome) bool { return o.what != aNothing })
			op.when = &w
		}
		asNil(o)
		op.x = o.only(func(o *outcome) bool { return o.what != aNothing })
		ops = append(ops, op)
	case *setMeta:
		ops = p.metadata(s)
	case *assign:
		if len(s.path) == 0 {
			ops = p.rootAssignment(s, st)
		} else {
			ops = p.fieldOps(s, st)
		}
	}
	if len(ops) > 0 {
		p.comment(&ops[0], s, notes)
	}
	return ops
}

// asNil turns deleted() into nil, which removes a name.
func asNil(o *outcome) {
	switch o.what {
	case aDeletion:
		*o = outcome{what: aValue, value: nilExpression()}
	case aChoice:
		asNil(o.yes)
		asNil(o.no)
	}
}

func (p *planner) metadata(s *setMeta) []operation {
	if s.all {
		x, ok := s.value.(*object)
		if !ok || !p.expandable(x) {
			y := p.untranslated(s.value, "Metadata can be set only name by name; nil removes a name.")
			return []operation{{act: setMetadata, name: "all", x: y}}
		}
		p.differs(s.value, "Other metadata stays; set to nil what must go.")
		var ops []operation
		for i, key := range x.keys {
			ops = append(ops, operation{act: setMetadata, name: key.(*literal).value.(string), x: p.expr(x.values[i], p.env)})
		}
		return ops
	}
	o := p.tree(s.value, p.env)
	if o.all(isNothing) {
		return nil
	}
	op := operation{act: setMetadata, name: s.name}
	if o.has(aNothing) {
		w := o.condition(func(o *outcome) bool { return o.what != aNothing })
		op.when = &w
	}
	asNil(o)
	op.x = o.only(func(o *outcome) bool { return o.what != aNothing })
	return []operation{op}
}

// rootAssignment plans an assignment to the root.
func (p *planner) rootAssignment(s *assign, st *state) []operation {
	if schema, ok := p.schemaOf(s.value); ok {
		return []operation{{act: runCodec, node: mapping(scalar("validate"), schema)}}
	}
	if c, ok := p.codec(s.value, false); ok {
		st.replaced = true
		return p.codecOps(c, nil)
	}
	if c, rest, ok := p.around(s.value); ok {
		st.replaced = true
		ops := p.codecOps(c, nil)
		before := p.before
		p.before = false
		ops = append(ops, operation{act: setRoot, x: p.expr(rest, p.env)})
		p.before = before
		return ops
	}
	if paths, ok := p.withoutFields(s.value); ok && !st.replaced && !st.fresh {
		var ops []operation
		for _, path := range paths {
			ops = append(ops, operation{act: unsetField, path: path})
		}
		return ops
	}
	if c, ok := s.value.(*call); ok && c.name == "catch" && c.of != nil && len(c.args) == 1 && isDeleted(c.args[0].value) {
		x := p.parsed(c.of, p.env)
		if !x.safe && x.text != "from_json(raw())" {
			st.replaced = true
			return []operation{{act: setRoot, x: x, onError: "drop"}}
		}
	}
	if x, ok := s.value.(*object); ok && len(x.keys) > 0 && p.expandable(x) {
		var ops []operation
		for i, key := range x.keys {
			name := key.(*literal).value.(string)
			ops = append(ops, operation{act: setField, path: []string{name}, x: p.expr(x.values[i], p.env), first: true})
		}
		st.replaced = true
		return ops
	}
	o := p.tree(s.value, p.env)
	var ops []operation
	if o.has(aDeletion) {
		keep := o.condition(func(o *outcome) bool { return o.what != aDeletion })
		ops = append(ops, operation{act: keepIf, x: keep})
		if s.to < p.lastRoot {
			p.note(s.from, Differs, "The message is dropped here, where assignments to root behind it made it fail.")
		}
	}
	if o.has(aThrow) && (o.what == aThrow || p.leaves(o)) {
		op := operation{act: failWith}
		throws := func(o *outcome) bool { return o.what == aThrow }
		if o.what != aThrow {
			w := o.condition(throws)
			op.when = &w
		}
		if reason := p.reason(o); reason != "" {
			op.text = reason
			ops = append(ops, op)
		}
	}
	values := func(o *outcome) bool { return !o.gone() }
	if !o.any(values) || p.leaves(o) {
		return ops
	}
	op := operation{act: setRoot}
	if o.has(aNothing) {
		w := o.condition(func(o *outcome) bool { return o.what != aNothing })
		op.when = &w
	}
	op.x = o.only(values)
	st.replaced = true
	return append(ops, op)
}

func isDeleted(n node) bool {
	c, ok := n.(*call)
	return ok && c.of == nil && c.name == "deleted"
}

// reason returns the template of an outcome's only throw, or of several equal ones.
func (p *planner) reason(o *outcome) string {
	if o.what == aThrow {
		return p.template(o.node.(*call).args[0].value, o.env)
	}
	if o.what != aChoice {
		return ""
	}
	if s := p.reason(o.yes); s != "" {
		return s
	}
	return p.reason(o.no)
}

// template writes a text, which may be concatenated, as a template.
func (t *translator) template(n node, e *env) string {
	switch n := n.(type) {
	case *literal:
		if s, ok := n.value.(string); ok {
			return strings.ReplaceAll(s, "$(", "$$(")
		}
	case *binary:
		if n.op == "+" {
			return t.template(n.left, e) + t.template(n.right, e)
		}
	case *call:
		if l, ok := n.of.(*literal); ok && n.name == "format" {
			if s, ok := l.value.(string); ok {
				if x, ok := t.formatted(s, n.args, e); ok {
					return x
				}
			}
		}
	}
	return "$(" + t.expr(n, e).text + ")"
}

// formatted translates a format in which only %v and %s are replaced.
func (t *translator) formatted(s string, args []argument, e *env) (string, bool) {
	found := verbs().FindAllStringIndex(s, -1)
	if len(found) != len(args) {
		return "", false
	}
	var b strings.Builder
	from := 0
	for i, v := range found {
		if verb := s[v[0]:v[1]]; verb != "%v" && verb != "%s" {
			return "", false
		}
		b.WriteString(strings.ReplaceAll(s[from:v[0]], "$(", "$$("))
		b.WriteString("$(" + t.expr(args[i].value, e).text + ")")
		from = v[1]
	}
	b.WriteString(strings.ReplaceAll(s[from:], "$(", "$$("))
	return b.String(), true
}

// fieldOps plans an assignment to a field.
func (p *planner) fieldOps(s *assign, st *state) []operation {
	if slices.Contains(s.path, "-") || slices.Contains(s.path, "*") {
		return []operation{{act: setField, path: s.path, x: p.untranslated(place(s.from),
			"flowd does not append to a list by a path; write concat(list, [value]).")}}
	}
	if c, ok := p.codec(s.value, true); ok {
		return p.codecOps(c, s.path)
	}
	o := p.tree(s.value, p.env)
	unwritten := p.o.Target == NewDocument && st.replaced && !anyOverlap([][]string{s.path}, st.writes.paths)
	switch {
	case o.all(isNothing), unwritten && o.what != aDeletion && o.all((*outcome).gone):
		return nil
	case o.what == aDeletion:
		return []operation{{act: unsetField, path: s.path}}
	case !o.special():
		return []operation{{act: setField, path: s.path, x: o.expression()}}
	case !o.has(aDeletion), unwritten:
		w, x := o.present()
		return []operation{{act: setField, path: s.path, x: x, when: &w}}
	}
	deleted := o.condition(func(o *outcome) bool { return o.what == aDeletion })
	unset := operation{act: unsetField, path: s.path}
	same := func(o *outcome) bool {
		return o.gone() || o.what == aValue && o.value.path && o.value.text == path(s.path) && !p.before
	}
	if o.all(same) { // values that are not deleted stay
		unset.when = &deleted
		return []operation{unset}
	}
	op := operation{act: chooseCase, cases: []operationCase{{when: &deleted, do: []operation{unset}}}}
	set := operation{act: setField, path: s.path, x: o.only(func(o *outcome) bool { return !o.gone() })}
	second := operationCase{do: []operation{set}}
	if o.has(aNothing) {
		w, _ := o.present()
		second.when = &w
	}
	op.cases = append(op.cases, second)
	return []operation{op}
}

// comment gives an operation the comments before, in and after its statement, and the notes made since. Comments of
// statements without a step go to the next step.
func (p *planner) comment(op *operation, s Statement, notes []Note) {
	from, to := 0, s.at().to
	for _, a := range p.anchors {
		if a.to <= s.at().from {
			from = max(from, a.to)
		}
	}
	line, _ := p.src.position(max(to-1, 0))
	var head []string
	for i, c := range p.m.comments {
		at, _ := p.src.position(c.from)
		switch {
		case p.taken[i] || c.from < from:
		case c.from < to:
			if before, _ := p.src.position(max(from-1, 0)); from > 0 && at == before && !c.own && c.from < s.at().from {
				break // it belongs to the previous statement
			}
			p.taken[i] = true
			head = append(head, c.text)
		case at == line && !c.own && to > s.at().from:
			p.taken[i] = true
			op.line = c.text
		}
	}
	op.head = append(head, op.head...)
	for _, n := range p.notes[min(len(notes), len(p.notes)):] {
		line := "Differs: " + n.Text
		if n.Kind == Untranslated {
			line = "Untranslated: " + n.Text
		}
		if !slices.Contains(op.head, line) {
			op.head = append(op.head, line)
		}
	}
}

// anchor finds the statements that become steps, which take comments.
func (p *planner) anchor(list []Statement) {
	each(list, func(s Statement) {
		switch s := s.(type) {
		case *define, *imports:
			return
		case *branches:
			return
		case *let:
			if u := p.vars[s.name]; u != nil && u.inline != nil {
				return
			}
		case *assign:
			if copies(s) && p.o.This == "" {
				return
			}
		}
		p.anchors = append(p.anchors, s.at())
	})
}
