package bloblang

import "slices"

// Into returns the path of a mapping that only assigns `this`: `root.path = this`. It is empty for `root = this`.
func (m *Mapping) Into() (string, bool) {
	if len(m.Statements) != 1 || len(m.comments) > 0 {
		return "", false
	}
	a, ok := m.Statements[0].(*assign)
	if !ok {
		return "", false
	}
	if _, ok := a.value.(*this); !ok {
		return "", false
	}
	if len(a.path) == 0 {
		return "", true
	}
	return path(a.path), true
}

// Field is a field that a mapping sets, with its expression.
type Field struct{ Name, Expression string }

// Fields translates a mapping that only sets fields of an object: `root.a = …` or `root = {"a": …}`. ok is false for
// any other mapping.
func Fields(src string, o Options) ([]Field, []Note, bool) {
	p, list, err := prepare(src, o)
	if err != nil {
		return nil, nil, false
	}
	p.variables(list)
	var all []Field
	add := func(name string, n node) bool {
		tree := p.tree(n, p.env)
		if tree.special() || len(p.reads.roots) > 0 || slices.ContainsFunc(all,
			func(f Field) bool { return f.Name == name }) {
			return false
		}
		all = append(all, Field{name, o.written(tree.expression().text)})
		return true
	}
	for _, s := range list {
		switch s := s.(type) {
		case *let:
			if u := p.vars[s.name]; u == nil || u.inline == nil {
				return nil, nil, false
			}
		case *assign:
			x, isObject := s.value.(*object)
			switch {
			case len(s.path) == 1:
				if !add(s.path[0], s.value) {
					return nil, nil, false
				}
			case len(s.path) == 0 && isObject && len(all) == 0:
				for i, key := range x.keys {
					l, ok := key.(*literal)
					if !ok || !add(l.value.(string), x.values[i]) {
						return nil, nil, false
					}
				}
			default:
				return nil, nil, false
			}
		case *define, *imports:
		default:
			return nil, nil, false
		}
	}
	return all, p.notes, true
}

// List translates a mapping that is only a list, `root = [a, b]`, to expressions of its elements. ok is false for any
// other mapping.
func List(src string, o Options) ([]string, []Note, bool) {
	p, statements, err := prepare(src, o)
	if err != nil {
		return nil, nil, false
	}
	p.variables(statements)
	var all []string
	for i, s := range statements {
		switch s := s.(type) {
		case *let:
			if u := p.vars[s.name]; u == nil || u.inline == nil {
				return nil, nil, false
			}
		case *assign:
			l, ok := s.value.(*list)
			if !ok || len(s.path) > 0 || i != len(statements)-1 {
				return nil, nil, false
			}
			for _, item := range l.items {
				tree := p.tree(item, p.env)
				if tree.special() {
					return nil, nil, false
				}
				all = append(all, o.written(tree.expression().text))
			}
		case *define, *imports:
		default:
			return nil, nil, false
		}
	}
	return all, p.notes, true
}
