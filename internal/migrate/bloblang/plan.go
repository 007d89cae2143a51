package bloblang

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A mapping reads one document, `this`, and makes another, `root`. Steps of flowd's change one document, in order. The
// planner keeps the two apart: where a later statement reads what an earlier one has changed, it puts the reader first
// or, where that can't be, keeps the document under vars("before").

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

// operation is a step, or a line of one.
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
	first   bool // it can be a line of the map that makes the new document
}

type operationCase struct {
	when *expression
	do   []operation
	head []string
}

// effect is what a statement reads and writes, found out by translating it once for nothing.
type effect struct {
	reads  reads
	writes writes
	copies bool // it makes the root a copy of this, or leaves it
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
	taken     map[int]bool // comments that are at a step
	anchors   []span       // statements that become steps
	lastRoot  int          // where the last assignment to root begins
	env       *env
	useBefore bool // some step reads vars("before")
	useRaw    bool
	useMeta   bool
}

// state is what has become of the message so far.
type state struct {
	writes   writes
	replaced bool // the document is another one than `this`
	fresh    bool // the new document has not been begun: what is unset is not there
}

// overlaps says whether a path is part of another, or the other way round.
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

// effectOf translates a statement for nothing, to see what it reads and writes.
func (p *planner) effectOf(s Statement) effect {
	notes, reads0 := p.notes, p.reads
	defer func() { p.notes, p.reads = notes, reads0 }()
	p.steps = 0
	p.notes, p.reads = nil, reads{}
	var e effect
	p.effects(s, &e)
	e.reads = p.reads
	return e
}

func (p *planner) effects(s Statement, e *effect) {
	switch s := s.(type) {
	case *let:
		if u := p.vars[s.name]; u != nil && u.inline != nil {
			return
		}
		p.tree(s.value, p.env)
		e.writes.vars = append(e.writes.vars, s.name)
	case *setMeta:
		p.tree(s.value, p.env)
		e.writes.meta = append(e.writes.meta, s.name)
	case *assign:
		if c, ok := p.codec(s.value, len(s.path) > 0); ok {
			p.expr(c.inner, p.env)
			e.root = true
			e.writes.paths = append(e.writes.paths, s.path)
			return
		}
		if c, _, ok := p.around(s.value); ok && len(s.path) == 0 {
			p.expr(c.inner, p.env)
			e.root = true
			e.writes.paths = append(e.writes.paths, nil)
			return
		}
		if _, ok := p.schemaOf(s.value); ok && len(s.path) == 0 {
			e.copies = true
			return
		}
		o := p.tree(s.value, p.env)
		if len(s.path) > 0 {
			e.root = true
			e.writes.paths = append(e.writes.paths, s.path)
			return
		}
		switch {
		case p.leaves(o):
			e.copies = e.copies || o.any(func(o *outcome) bool {
				_, ok := o.node.(*this)
				return ok
			})
			// Reading `this` whole only to copy it is no read.
			if o.what != aChoice {
				p.reads = reads{}
			} else {
				p.reads.paths = slices.DeleteFunc(p.reads.paths, func(q []string) bool { return len(q) == 0 })
			}
		default:
			if gone, ok := p.withoutFields(s.value); ok {
				e.copies = true
				p.reads = reads{}
				e.writes.paths = append(e.writes.paths, gone...)
				e.root = true
				return
			}
			e.root = true
			e.writes.paths = append(e.writes.paths, nil)
		}
	case *branches:
		for _, c := range s.cases {
			if c.when != nil {
				p.expr(c.when, p.env)
			}
			for _, s := range c.do {
				p.effects(s, e)
			}
		}
	}
}

// isThis says whether an outcome is the document as it is: `this`, or root itself.
func (p *planner) isThis(o *outcome) bool {
	if o.what != aValue || o.env != p.env {
		return false
	}
	if _, ok := o.node.(*root); ok {
		return true
	}
	_, ok := o.node.(*this)
	return ok && p.o.This == ""
}

// leaves says whether what is assigned to the root leaves it as `this`, drops the message, or fails it.
func (p *planner) leaves(o *outcome) bool {
	return o.all(func(o *outcome) bool { return o.gone() || o.what == aThrow || p.isThis(o) })
}

// withoutFields is this.without("a", "b").
func (p *planner) withoutFields(n node) ([][]string, bool) {
	c, ok := n.(*call)
	if !ok || c.name != "without" || c.of == nil || len(c.args) == 0 {
		return nil, false
	}
	if _, ok := c.of.(*this); !ok {
		return nil, false
	}
	var paths [][]string
	for _, a := range c.args {
		l, ok := a.value.(*literal)
		if !ok {
			return nil, false
		}
		s, ok := l.value.(string)
		if !ok {
			return nil, false
		}
		paths = append(paths, names(s))
	}
	return paths, true
}

// plan makes operations of all statements.
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
		p.o.Target = NewDocument // `root = this` takes the two apart
	}
	return p.document(list, effects)
}

// copies says whether a statement is `root = this`.
func copies(s Statement) bool {
	a, ok := s.(*assign)
	if !ok || len(a.path) > 0 {
		return false
	}
	_, ok = a.value.(*this)
	return ok
}

// document plans a mapping that makes a new document.
func (p *planner) document(list []Statement, effects []effect) []operation {
	begins := slices.IndexFunc(effects, func(e effect) bool { return e.root || e.copies })
	if begins < 0 { // the document stays as it is
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
	// What does not change the document goes first, so that it reads what the document was.
	var before, after []Statement
	var then effect // what the statements afterwards do
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
	// But metadata that the document is made of must still be as it was.
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

// peek translates for nothing.
func (p *planner) peek(a *assign) *outcome {
	notes, r := p.notes, p.reads
	defer func() { p.notes, p.reads = notes, r }()
	p.steps = 0
	return p.tree(a.value, p.env)
}

// expandable says whether an object can be written field by field.
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

// expanded are assignments of an object's fields, and the statements behind them.
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

// begun plans what makes a new document: as many fields as possible in the map that begins it.
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
		if c, ok := p.codec(a.value, true); ok { // the map has its text, and a step behind it reads that
			value = c.inner
			from := path(a.path)
			codecs = append(codecs, operation{act: runCodec, node: c.node(&from, a.path)})
		}
		o := p.tree(value, p.env)
		set := slices.ContainsFunc(ops, func(op operation) bool { return overlaps(op.path, a.path) })
		if o.what == aDeletion && !set || o.what == aNothing {
			begun = begun || o.what == aDeletion // the document is empty then, and no longer as it was
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

// conditional plans the only assignment of a mapping, which depends on a condition: without it the document stays.
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

// inBranches plans a mapping all of whose assignments to the root stand in one if statement: without it, the document
// stays as it is, so that each branch makes a new one.
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

// apart says whether no statement but one reads the root or sets metadata.
func apart(effects []effect, but int) bool {
	for i, e := range effects {
		if i != but && (len(e.reads.roots) > 0 || len(e.writes.meta) > 0) {
			return false
		}
	}
	return true
}

// ordered puts statements that read before those that write what they read, if there is such an order.
func (p *planner) ordered(list []Statement, effects []effect) []Statement {
	n := len(list)
	after := make([][]bool, n) // after[i][j]: i comes after j
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

// variables decides which variables stand where they are read, and which become a step `let`.
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

// changedBetween says whether statements write what a variable reads.
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

// all plans statements one after the other.
func (p *planner) all(list []Statement, st *state) []operation {
	var ops []operation
	for _, s := range list {
		ops = append(ops, p.one(s, st)...)
	}
	return ops
}

// one plans a statement, by what the document was if it reads what has changed since.
func (p *planner) one(s Statement, st *state) []operation {
	if b, ok := s.(*branches); ok {
		return p.branches(b, st)
	}
	e := p.effectOf(s)
	changed := st.replaced || p.o.Target == NewDocument && anyOverlap(e.reads.paths, st.writes.paths)
	if changed && len(e.reads.paths) > 0 {
		p.before = true
		p.useBefore = true
	}
	p.beforeMeta = p.o.Target == NewDocument && anyMeta(e.reads.meta, st.writes.meta)
	p.useMeta = p.useMeta || p.beforeMeta
	ops := p.statement(s, st)
	p.useRaw = p.useRaw || p.beforeRaw
	p.before, p.beforeRaw, p.beforeMeta = false, false, false
	st.writes.paths = append(st.writes.paths, e.writes.paths...)
	st.writes.meta = append(st.writes.meta, e.writes.meta...)
	return ops
}

func (p *planner) branches(s *branches, st *state) []operation {
	op := operation{act: chooseCase}
	notes := p.notes
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
	return []operation{op}
}

// statement plans what is not a branch.
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
			ops = p.whole(s, st)
		} else {
			ops = p.fieldOps(s, st)
		}
	}
	if len(ops) > 0 {
		p.comment(&ops[0], s, notes)
	}
	return ops
}

// asNil makes deleted() nil, which removes a name.
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
	op := operation{act: setMetadata, name: s.name}
	if o.has(aNothing) {
		if o.what == aNothing {
			return nil
		}
		w := o.condition(func(o *outcome) bool { return o.what != aNothing })
		op.when = &w
	}
	asNil(o)
	op.x = o.only(func(o *outcome) bool { return o.what != aNothing })
	return []operation{op}
}

// whole plans an assignment to the root.
func (p *planner) whole(s *assign, st *state) []operation {
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

// reason is the template of the one throw of an outcome, or of several that give the same.
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

// template writes a text, which may be put together, as a template.
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

// formatted is a text in which only %v and %s are replaced.
func (t *translator) formatted(s string, args []argument, e *env) (string, bool) {
	found := verbs.FindAllStringIndex(s, -1)
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
	switch {
	case o.what == aNothing:
		return nil
	case o.what == aDeletion:
		return []operation{{act: unsetField, path: s.path}}
	case !o.special():
		return []operation{{act: setField, path: s.path, x: o.expression()}}
	case !o.has(aDeletion), p.o.Target == NewDocument && st.replaced && !anyOverlap([][]string{s.path}, st.writes.paths):
		w, x := o.present()
		return []operation{{act: setField, path: s.path, x: x, when: &w}}
	}
	deleted := o.condition(func(o *outcome) bool { return o.what == aDeletion })
	unset := operation{act: unsetField, path: s.path}
	same := func(o *outcome) bool {
		return o.gone() || o.what == aValue && o.value.path && o.value.text == path(s.path) && !p.before
	}
	if o.all(same) { // what is not deleted stays
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

// comment gives an operation the comments that stand before, in and behind its statement, and the notes made since.
// Comments of statements that become no step go to the next one.
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
				break // it stands behind the statement before
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

// anchor finds the statements that become steps, and so take comments.
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
