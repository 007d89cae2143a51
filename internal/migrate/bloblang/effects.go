package bloblang

import (
	"slices"
)

// effectOf translates a statement and discards the result, to find out what it reads and writes.
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
			// Reading all of `this` only to copy it does not count as reading.
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

// isThis reports whether an outcome is the unchanged document: `this`, or root itself.
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

// leaves reports whether assigning the outcome to the root leaves it as `this`, drops the message, or fails it.
func (p *planner) leaves(o *outcome) bool {
	return o.all(func(o *outcome) bool { return o.gone() || o.what == aThrow || p.isThis(o) })
}

// withoutFields returns this.without("a", "b").
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
