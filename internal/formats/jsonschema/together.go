package jsonschema

import (
	"fmt"
	"strconv"
)

// together checks keywords that apply other schemas to the whole value.
func (c *checking) together(n *node, v any, m *marks, depth int) bool {
	ok := true
	// applied checks against a schema, and adds its marks if the value matches.
	applied := func(to *node) bool {
		own := m.fresh()
		if !c.node(to, v, own, depth) {
			return false
		}
		c.merge(m, own)
		return true
	}
	if n.ref != nil {
		ok = applied(n.ref)
	}
	if n.dyn != nil && (ok || c.loud) {
		ok = applied(c.dynamic(n)) && ok
	}
	for _, to := range n.all {
		if ok || c.loud {
			ok = applied(to) && ok
		}
	}
	if o, is := v.(map[string]any); is {
		for _, w := range n.whenPresent {
			if _, has := o[w.key]; has && (ok || c.loud) {
				ok = applied(w.n) && ok
			}
		}
	}
	if !ok && !c.loud {
		return false
	}
	if len(n.any) > 0 {
		ok = c.some(n.any, v, m, depth, false) && ok
	}
	if len(n.one) > 0 && (ok || c.loud) {
		ok = c.some(n.one, v, m, depth, true) && ok
	}
	if n.not != nil && c.quietly(n.not, v, nil, depth) {
		c.add("matches what it must not (keyword not)")
		ok = false
	}
	if n.when != nil && (ok || c.loud) {
		own := m.fresh()
		next := n.orElse
		if c.quietly(n.when, v, own, depth) {
			c.merge(m, own)
			next = n.then
		}
		if next != nil {
			ok = applied(next) && ok
		}
	}
	return ok
}

// some checks that a value matches one of several schemas, or exactly one. If it matches none, it reports the
// findings of each.
func (c *checking) some(of []*node, v any, m *marks, depth int, exactly bool) bool {
	first := -1
	for i, n := range of {
		own := m.fresh()
		if !c.quietly(n, v, own, depth) {
			continue
		}
		if exactly && first >= 0 {
			if c.loud {
				c.add(fmt.Sprintf("matches both schema %d and schema %d of oneOf", first, i))
			}
			return false
		}
		first = i
		c.merge(m, own)
		if !exactly && m == nil {
			return true
		}
	}
	if first >= 0 {
		return true
	}
	if c.loud {
		for _, n := range of {
			c.node(n, v, nil, depth)
		}
	}
	return false
}

// dynamic returns the target of $dynamicRef or $recursiveRef, in the outermost resource that has it.
func (c *checking) dynamic(n *node) *node {
	if n.scoped {
		for _, in := range c.scope {
			if p := in.dynamic[n.anchor]; p != nil {
				return p.made
			}
		}
	}
	return n.dyn
}

// rest checks the parts that no other keyword has evaluated.
func (c *checking) rest(n *node, v any, m *marks) bool {
	ok := true
	switch v := v.(type) {
	case []any:
		if !c.spend(len(v)) {
			return false
		}
		for i := m.first; i < len(v) && n.restItems != nil && !m.everything; i++ {
			if !m.items[i] {
				ok = c.within(n.restItems, strconv.Itoa(i), v[i]) && ok
			}
		}
		if n.restItems != nil {
			m.all()
		}
	case map[string]any:
		if n.restProps == nil || m.everything {
			break
		}
		if !c.spend(len(v)) {
			return false
		}
		var extra []string
		for key, item := range v {
			switch {
			case m.keys[key]:
			case n.restProps.never:
				ok = false
				extra = append(extra, key)
			default:
				ok = c.within(n.restProps, key, item) && ok
			}
		}
		if len(extra) > 0 {
			c.extra(extra, "unevaluated")
		}
		m.all()
	}
	return ok
}
