package bloblang

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// A mapping reads one document, `this`, and builds another, `root`. Steps of flowd change one document, in order. The
// planner keeps the two apart: if a later statement reads what an earlier one changes, it moves the reader first or,
// if that is impossible, keeps the document in vars("before").

type act int

const (
	setField act = iota
	unsetField
	setRoot
	setMetadata
	keepIf
	failWith
	setVariable
	chooseCase
	runCodec
)

// operation is a step, or a line of a step.
type operation struct {
	act     act
	path    []string
	name    string     // of metadata or a variable
	node    *yaml.Node // of runCodec: the step
	x       expression
	text    string // of failWith: a template
	when    *expression
	cases   []operationCase
	head    []string
	line    string
	onError string
	first   bool // it can be a line of the map that begins the new document
}

type operationCase struct {
	when *expression
	do   []operation
	head []string
}

// effect is what a statement reads and writes.
type effect struct {
	reads  reads
	writes writes
	copies bool // it makes the root a copy of this, or keeps it
	root   bool // it assigns to the root, or to a field of it
}

type writes struct {
	paths [][]string // an empty path is the whole document
	meta  []string
	vars  []string
}

type planner struct {
	*translator
	m         *Mapping
	taken     map[int]bool // comments that are placed
	anchors   []span       // statements that become steps
	lastRoot  int          // where the last assignment to root begins
	env       *env
	useBefore bool // a step reads vars("before")
	useRaw    bool
	useMeta   bool
}

// state is the state of the message after the steps so far.
type state struct {
	writes   writes
	replaced bool // the document is not `this` any more
	fresh    bool // the new document is still empty, so nothing need be unset
}

// overlaps reports whether one path contains the other.
func overlaps(a, b []string) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

func anyOverlap(a, b [][]string) bool {
	return slices.ContainsFunc(a, func(p []string) bool {
		return slices.ContainsFunc(b, func(q []string) bool { return overlaps(p, q) })
	})
}

func anyMeta(reads, writes []string) bool {
	return slices.ContainsFunc(reads, func(r string) bool {
		return slices.ContainsFunc(writes, func(w string) bool { return r == "" || w == "" || r == w })
	})
}

func anyOf(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// plan turns all statements into operations.
func (p *planner) plan(list []Statement) []operation {
	list = slices.DeleteFunc(slices.Clone(list), func(s Statement) bool {
		switch s.(type) {
		case *define, *imports:
			return true
		}
		return false
	})
	p.variables(list)
	p.anchor(list)
	each(list, func(s Statement) {
		if a, ok := s.(*assign); ok && (len(a.path) > 0 || !p.leaves(p.peek(a))) {
			p.lastRoot = max(p.lastRoot, a.from)
		}
	})
	effects := make([]effect, len(list))
	for i, s := range list {
		effects[i] = p.effectOf(s)
	}
	if p.o.Target == InPlace {
		if i := slices.IndexFunc(effects, func(e effect) bool { return e.root || e.copies }); i < 0 || !copies(list[i]) ||
			p.o.This != "" {
			return p.all(list, &state{})
		}
		p.o.Target = NewDocument // `root = this` separates the two
	}
	return p.document(list, effects)
}

// copies reports whether a statement is `root = this`.
func copies(s Statement) bool {
	a, ok := s.(*assign)
	if !ok || len(a.path) > 0 {
		return false
	}
	_, ok = a.value.(*this)
	return ok
}

// document plans a mapping that builds a new document.
func (p *planner) document(list []Statement, effects []effect) []operation {
	begins := slices.IndexFunc(effects, func(e effect) bool { return e.root || e.copies })
	if begins < 0 { // the document stays unchanged
		return p.all(p.ordered(list, effects), &state{})
	}
	roots := 0
	for _, e := range effects {
		if e.root {
			roots++
		}
	}
	_, conditional := list[begins].(*branches)
	if effects[begins].copies && !conditional {
		return p.all(p.ordered(list, effects), &state{})
	}
	if roots == 1 && conditional && !effects[begins].copies && apart(effects, begins) {
		return p.inBranches(list, effects, begins)
	}
	// Statements that do not change the document go first, so that they read the original.
	var before, after []Statement
	var then effect // effect of the later statements
	for i, s := range list {
		e := effects[i]
		if !e.root && !e.copies && len(e.reads.roots) == 0 && !anyOf(e.reads.vars, then.writes.vars) &&
			!anyOf(e.writes.vars, then.reads.vars) && !anyOf(e.writes.vars, then.writes.vars) &&
			!anyMeta(e.reads.newMeta, then.writes.meta) && !anyMeta(e.writes.meta, then.writes.meta) &&
			!anyMeta(e.writes.meta, then.reads.newMeta) {
			before = append(before, s)
		} else {
			after = append(after, s)
			then.writes.vars = append(then.writes.vars, e.writes.vars...)
			then.writes.meta = append(then.writes.meta, e.writes.meta...)
			then.reads.vars = append(then.reads.vars, e.reads.vars...)
			then.reads.newMeta = append(then.reads.newMeta, e.reads.newMeta...)
		}
	}
	// But metadata that the document is built from must not have changed yet.
	for i := len(before) - 1; i >= 0; i-- {
		e := p.effectOf(before[i])
		for _, s := range after {
			if len(e.writes.meta) > 0 && anyMeta(p.effectOf(s).reads.meta, e.writes.meta) && len(e.reads.paths) == 0 {
				after = append(after, before[i])
				before = slices.Delete(before, i, i+1)
				break
			}
		}
	}
	st := &state{fresh: true}
	ops := p.all(before, st)
	st.fresh = true
	if a, ok := after[0].(*assign); ok && len(a.path) == 0 {
		o := p.peek(a)
		if x, isObject := a.value.(*object); isObject && p.expandable(x) {
			return append(ops, p.begun(p.expanded(a, x, after[1:]), st)...)
		}
		if roots == 1 && len(after) == 1 || !o.special() {
			st.fresh = false
			return append(ops, p.all(after, st)...)
		}
	}
	return append(ops, p.begun(after, st)...)
}

// peek translates and discards the result.
func (p *planner) peek(a *assign) *outcome {
	notes, r := p.notes, p.reads
	defer func() { p.notes, p.reads = notes, r }()
	p.steps = 0
	return p.tree(a.value, p.env)
}

// expandable reports whether an object can be written field by field.
func (p *planner) expandable(x *object) bool {
	seen := map[string]bool{}
	for i, key := range x.keys {
		l, ok := key.(*literal)
		if !ok || seen[l.value.(string)] {
			return false
		}
		seen[l.value.(string)] = true
		if p.peek(&assign{value: x.values[i]}).special() {
			return false
		}
	}
	return true
}

// expanded returns assignments of an object's fields, followed by the remaining statements.
func (p *planner) expanded(a *assign, x *object, rest []Statement) []Statement {
	var list []Statement
	for i, key := range x.keys {
		to := a.to
		if i+1 < len(x.keys) {
			to = x.keys[i+1].pos()
		}
		from := key.pos()
		if i == 0 {
			from = a.from
		}
		list = append(list, &assign{span: span{from, to}, path: []string{key.(*literal).value.(string)}, value: x.values[i]})
	}
	return append(list, rest...)
}

// begun plans the statements that build a new document, with as many fields as possible in the map that begins it.
func (p *planner) begun(list []Statement, st *state) []operation {
	var ops, codecs []operation
	i, begun := 0, false
	for ; i < len(list); i++ {
		a, ok := list[i].(*assign)
		if !ok || len(a.path) == 0 {
			break
		}
		notes := p.notes
		p.reads, p.steps = reads{}, 0
		value := a.value
		if c, ok := p.codec(a.value, true); ok { // the map sets its text, which a later step decodes
			value = c.inner
			from := path(a.path)
			codecs = append(codecs, operation{act: runCodec, node: c.node(&from, a.path)})
		}
		o := p.tree(value, p.env)
		set := slices.ContainsFunc(ops, func(op operation) bool { return overlaps(op.path, a.path) })
		if o.what == aDeletion && !set || o.what == aNothing {
			begun = begun || o.what == aDeletion // then the document is empty
			p.notes = notes
			continue
		}
		if o.special() || len(p.reads.roots) > 0 || anyMeta(p.reads.meta, st.writes.meta) {
			p.notes = notes
			if value != a.value {
				codecs = codecs[:len(codecs)-1]
			}
			break
		}
		op := operation{act: setField, path: a.path, x: o.expression(), first: true}
		p.comment(&op, a, notes)
		ops = slices.DeleteFunc(ops, func(other operation) bool { return slices.Equal(other.path, op.path) })
		ops = append(ops, op)
		st.writes.paths = append(st.writes.paths, a.path)
	}
	if len(ops) == 0 && (i == len(list) || begun) {
		ops = append(ops, operation{act: setRoot, x: whole("{}", objectKind)})
	} else if len(ops) == 0 {
		if op, ok := p.conditional(list[i:], st); ok {
			return op
		}
		note := "Where none of the conditions holds, the document is empty rather than as it was."
		p.note(list[i].at().from, Differs, "%s", note)
		ops = append(ops, operation{act: setRoot, x: whole("{}", objectKind), head: []string{"Differs: " + note}})
	}
	st.replaced = true
	return append(append(ops, codecs...), p.all(list[i:], st)...)
}

// conditional plans a mapping whose only assignment depends on a condition: otherwise the document stays.
func (p *planner) conditional(list []Statement, st *state) ([]operation, bool) {
	a, ok := list[0].(*assign)
	if !ok || len(list) > 1 || len(a.path) == 0 {
		return nil, false
	}
	notes := p.notes
	p.reads = reads{}
	o := p.tree(a.value, p.env)
	if len(p.reads.roots) > 0 || anyMeta(p.reads.meta, st.writes.meta) || !o.has(aNothing) || o.has(aDeletion) {
		p.notes = notes
		return nil, false
	}
	when, x := o.present()
	op := operation{act: setField, path: a.path, x: x, when: &when, first: true}
	p.comment(&op, a, notes)
	return []operation{op}, true
}

// inBranches plans a mapping whose assignments to the root are all in one if statement: otherwise the document stays,
// so each branch builds a new one.
func (p *planner) inBranches(list []Statement, effects []effect, at int) []operation {
	var rest []Statement
	for i, s := range list {
		if i != at {
			rest = append(rest, s)
		}
	}
	st := &state{}
	ops := p.all(rest, st)
	s := list[at].(*branches)
	op := operation{act: chooseCase}
	notes := p.notes
	for _, b := range s.cases {
		c := operationCase{}
		if b.when != nil {
			x := p.expr(b.when, p.env)
			c.when = &x
		}
		effects := make([]effect, len(b.do))
		for i, s := range b.do {
			effects[i] = p.effectOf(s)
		}
		if len(op.cases) == 0 {
			p.comment(&op, &let{span: span{s.from, s.from}}, notes)
		}
		c.do = p.document(b.do, effects)
		op.cases = append(op.cases, c)
	}
	return append(ops, op)
}

// apart reports whether only one statement reads the root or sets metadata.
func apart(effects []effect, but int) bool {
	for i, e := range effects {
		if i != but && (len(e.reads.roots) > 0 || len(e.writes.meta) > 0) {
			return false
		}
	}
	return true
}

// ordered puts statements that read before those that write the same, if there is such an order.
func (p *planner) ordered(list []Statement, effects []effect) []Statement {
	n := len(list)
	after := make([][]bool, n) // after[i][j]: i must come after j
	conflict := false
	for i := range after {
		after[i] = make([]bool, n)
	}
	for i := range n {
		for j := range i { // j is written before i
			a, b := effects[j], effects[i]
			if anyOverlap(a.writes.paths, b.writes.paths) || anyOverlap(a.writes.paths, b.reads.roots) ||
				anyMeta(a.writes.meta, b.writes.meta) || anyMeta(b.reads.newMeta, a.writes.meta) ||
				anyOf(a.writes.vars, b.reads.vars) || anyOf(a.writes.vars, b.writes.vars) ||
				anyOverlap(a.reads.roots, b.writes.paths) || anyOverlap(a.reads.paths, b.writes.paths) ||
				anyOf(a.reads.vars, b.writes.vars) || anyMeta(a.reads.meta, b.writes.meta) ||
				anyMeta(a.reads.newMeta, b.writes.meta) {
				after[i][j] = true
			}
			if anyOverlap(b.reads.paths, a.writes.paths) || anyMeta(b.reads.meta, a.writes.meta) {
				after[j][i] = true
				conflict = true
			}
		}
	}
	if !conflict {
		return list
	}
	var out []Statement
	done := make([]bool, n)
	for len(out) < n {
		next := -1
		for i := range n {
			if !done[i] && !slices.ContainsFunc(indexes(n), func(j int) bool { return after[i][j] && !done[j] }) {
				next = i
				break
			}
		}
		if next < 0 {
			return list
		}
		done[next] = true
		out = append(out, list[next])
	}
	return out
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// variables decides which variables are inlined, and which become a step `let`.
func (p *planner) variables(list []Statement) {
	p.vars = map[string]*variableUse{}
	counts := map[string]int{}
	each(list, func(s Statement) {
		if l, ok := s.(*let); ok {
			counts[l.name]++
			p.vars[l.name] = &variableUse{}
		}
	})
	for i, s := range list {
		l, ok := s.(*let)
		if !ok || counts[l.name] != 1 {
			continue
		}
		uses, looped, last := 0, false, i
		for k, s := range list[i+1:] {
			each([]Statement{s}, func(s Statement) {
				for _, n := range valuesOf(s) {
					c := reading(n, l.name)
					uses += c
					if c > 0 {
						last = i + 1 + k
						looped = looped || inLoop(n, l.name)
					}
				}
			})
		}
		o := p.peek(&assign{value: l.value})
		if o.special() || !trivial(l.value) && (uses > 1 || looped || len(o.expression().text) > 60) {
			continue
		}
		if p.o.Target == InPlace && p.changedBetween(list[i:last], l) {
			continue
		}
		p.vars[l.name] = &variableUse{inline: &inlined{l.value, p.env}}
	}
}

// changedBetween reports whether statements write what a variable reads before it is used.
func (p *planner) changedBetween(list []Statement, l *let) bool {
	e := p.effectOf(l)
	for _, s := range list {
		w := p.effectOf(s).writes
		if anyOverlap(e.reads.paths, w.paths) || anyOverlap(e.reads.roots, w.paths) || anyMeta(e.reads.meta, w.meta) {
			return true
		}
	}
	return false
}

func inLoop(n node, name string) bool {
	found := false
	walk(n, func(n node) bool {
		if c, ok := n.(*call); ok && loops[c.name] {
			for _, a := range c.args {
				if reading(a.value, name) > 0 {
					found = true
				}
			}
		}
		return !found
	})
	return found
}
