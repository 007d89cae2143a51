package jsonschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checking is the state of one check of one document.
type checking struct {
	findings
	budget
	of    *library
	scope []*resource // the dynamic scope, outermost first
	known map[question]verdict
}

var errEndless = errors.New("the schema refers to itself without end")

// check returns what is wrong with a value of a document of size bytes. It first checks without building texts, since
// most documents are valid.
func (l *library) check(ctx context.Context, n *node, v any, size int) error {
	c := checking{of: l, budget: newBudget(ctx, size)}
	if ok := c.node(n, v, nil, 0); ok || c.stopped != nil {
		return c.stopped
	}
	c = checking{of: l, budget: newBudget(ctx, size), findings: findings{loud: true}}
	c.node(n, v, nil, 0)
	switch {
	case c.stopped == nil:
	case !errors.Is(c.stopped, ErrGivenUp), c.count == 0:
		return c.stopped
	default:
		c.more = true
	}
	return c.err()
}

// add adds a finding, unless the check has ended: later failures are meaningless.
func (c *checking) add(text string) {
	if c.stopped == nil {
		c.findings.add(text)
	}
}

// quietly reports whether a value matches, without findings.
func (c *checking) quietly(n *node, v any, m *marks, depth int) bool {
	was := c.loud
	c.loud = false
	ok := c.node(n, v, m, depth)
	c.loud = was
	return ok
}

// within checks a value one step further into the document.
func (c *checking) within(n *node, step string, v any) bool {
	c.at = append(c.at, step)
	ok := c.node(n, v, nil, 0)
	c.at = c.at[:len(c.at)-1]
	return ok
}

// node reports whether a value matches a schema. depth is the number of schemas entered without a step into the
// document.
func (c *checking) node(n *node, v any, m *marks, depth int) bool {
	switch {
	case !c.spend(1):
		return false
	case n.every != 0:
		return c.schema(v, n.every)
	case n.never:
		c.add("nothing is allowed here")
		return false
	case depth > len(c.of.made):
		c.stopped = errEndless
		return false
	case !n.deep:
		return c.apply(n, v, m, depth)
	}
	q, asked := c.question(n, v, m)
	if asked {
		if known, ok := c.known[q]; ok {
			c.merge(m, known.marks)
			return known.ok
		}
	}
	ok := c.enter() && c.apply(n, v, m, depth)
	c.level--
	if asked {
		c.remember(q, ok, m)
	}
	return ok
}

// apply is node without remembered verdicts.
func (c *checking) apply(n *node, v any, m *marks, depth int) bool {
	if len(c.scope) == 0 || c.scope[len(c.scope)-1] != n.in {
		c.scope = append(c.scope, n.in)
		defer func() { c.scope = c.scope[:len(c.scope)-1] }()
	}
	own := m
	if n.marks {
		own = &marks{}
	}
	ok := c.general(n, v)
	if !ok && !c.loud {
		return false
	}
	switch v := v.(type) {
	case json.Number:
		ok = c.bounds(n, v) && ok
	case string:
		ok = c.text(n, v) && ok
	case []any:
		ok = c.list(n, v, own) && ok
	case map[string]any:
		ok = c.object(n, v, own, depth) && ok
	}
	if !ok && !c.loud {
		return false
	}
	ok = c.together(n, v, own, depth+1) && ok
	if n.marks && (ok || c.loud) {
		ok = c.rest(n, v, own) && ok
	}
	if ok && n.marks {
		c.merge(m, own)
	}
	return ok && c.stopped == nil
}

// schema checks that a value is itself a valid schema.
func (c *checking) schema(v any, d draft) bool {
	f := findings{loud: true, at: c.at}
	f.inspect(v, d)
	if c.loud {
		c.include(&f)
	}
	return c.spend(f.inspected) && f.count == 0
}

func (c *checking) general(n *node, v any) bool {
	ok := true
	if number, is := v.(json.Number); is && !c.spend(heft(number)-1) {
		return false
	}
	if len(n.types) > 0 && !isOf(v, n.types) {
		if ok = false; c.loud {
			c.add(wrongType(v, strings.Join(n.types, " or ")))
		}
	}
	for _, only := range [...]*values{n.konst, n.enum} {
		if only != nil && (!c.spend(only.weigh(v)) || !only.has(v)) {
			c.add(only.words)
			ok = false
		}
	}
	return ok
}

func isOf(v any, types []string) bool {
	is := typeOf(v)
	for _, t := range types {
		if t == is || t == "integer" && isInteger(v) {
			return true
		}
	}
	return false
}

func (c *checking) bounds(n *node, v json.Number) bool {
	if bounded := n.min != nil || n.max != nil || n.above != nil || n.below != nil || n.multiple != nil; bounded &&
		!c.spend(heft(v)-1) {
		return false
	}
	ok := true
	wrong := func(b *bound, keyword string) {
		if ok = false; c.loud {
			c.add(keyword + ": got " + string(v) + ", want " + b.text)
		}
	}
	if n.min != nil && n.min.compare(v) < 0 {
		wrong(n.min, "minimum")
	}
	if n.max != nil && n.max.compare(v) > 0 {
		wrong(n.max, "maximum")
	}
	if n.above != nil && n.above.compare(v) <= 0 {
		wrong(n.above, "exclusiveMinimum")
	}
	if n.below != nil && n.below.compare(v) >= 0 {
		wrong(n.below, "exclusiveMaximum")
	}
	if n.multiple != nil && !n.multiple.divides(v) {
		wrong(n.multiple, "multipleOf")
	}
	return ok
}

// between checks a size.
func (c *checking) between(got int, least, most *int, lower, upper string) bool {
	keyword, want := lower, least
	switch {
	case least != nil && got < *least:
	case most != nil && got > *most:
		keyword, want = upper, most
	default:
		return true
	}
	if c.loud {
		c.add(fmt.Sprintf("%s: got %d, want %d", keyword, got, *want))
	}
	return false
}

func (c *checking) text(n *node, v string) bool {
	ok := true
	if n.minLength != nil || n.maxLength != nil {
		ok = c.between(utf8.RuneCountInString(v), n.minLength, n.maxLength, "minLength", "maxLength")
	}
	if !c.spend(len(v)/64) || n.pattern != nil && !c.spend(n.pattern.steps(v)) || n.checked != nil && !c.spend(len(v)/4) {
		return false
	}
	if n.pattern != nil && !n.pattern.MatchString(v) {
		c.add("does not match the pattern " + n.pattern.String())
		ok = false
	}
	if n.checked != nil && !n.checked(v) {
		c.add("is not a valid " + n.format)
		ok = false
	}
	return ok
}

func (c *checking) list(n *node, v []any, m *marks) bool {
	ok := c.between(len(v), n.minItems, n.maxItems, "minItems", "maxItems")
	if n.unique && c.spend(weigh(v)) {
		if i, j, twin := twins(v); twin {
			c.add(equalItems(i, j))
			ok = false
		}
	}
	for i, item := range v {
		var of *node
		switch {
		case i < len(n.prefix):
			of = n.prefix[i]
		case n.items == nil:
			m.upTo(min(len(n.prefix), len(v)))
			return c.contained(n, v, m) && ok
		case n.items.never && n.itemsOf == "additionalItems":
			if c.loud {
				c.add(fmt.Sprintf("last %d additionalItem(s) not allowed", len(v)-i))
			}
			return false
		default:
			of = n.items
		}
		if !c.within(of, strconv.Itoa(i), item) {
			if ok = false; !c.loud {
				return false
			}
		}
	}
	m.upTo(len(v))
	return c.contained(n, v, m) && ok
}

func (c *checking) contained(n *node, v []any, m *marks) bool {
	if n.contains == nil {
		return true
	}
	matched := 0
	for i, item := range v {
		if c.quietly(n.contains, item, nil, 0) {
			matched++
			if n.in.draft > draft2019 {
				m.item(i)
			}
		}
	}
	switch {
	case matched < n.minContains:
		c.add(fmt.Sprintf("contains: %d items match, want at least %d", matched, n.minContains))
		return false
	case n.maxContains != nil && matched > *n.maxContains:
		c.add(fmt.Sprintf("contains: %d items match, want at most %d", matched, *n.maxContains))
		return false
	}
	return true
}

func (c *checking) object(n *node, v map[string]any, m *marks, depth int) bool {
	ok := c.between(len(v), n.minProps, n.maxProps, "minProperties", "maxProperties")
	if !c.spend(len(n.required) + len(n.needs) + len(n.whenPresent)) {
		return false
	}
	var missing []string
	for _, key := range n.required {
		if _, has := v[key]; !has {
			if ok = false; !c.loud {
				return false
			}
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		c.add("missing " + properties(missing))
	}
	for _, need := range n.needs {
		if _, has := v[need.key]; !has {
			continue
		}
		missing = missing[:0]
		for _, key := range need.also {
			if _, has := v[key]; !has {
				missing = append(missing, key)
			}
		}
		if len(missing) > 0 {
			if ok = false; c.loud {
				c.add("missing " + properties(missing) + ", which '" + need.key + "' needs")
			}
		}
	}
	if !ok && !c.loud {
		return false
	}
	return c.properties(n, v, m) && ok
}

func properties(names []string) string {
	word := "property '"
	if len(names) > 1 {
		word = "properties '"
	}
	return word + strings.Join(names, "', '") + "'"
}

func (c *checking) properties(n *node, v map[string]any, m *marks) bool {
	ok := c.named(n, v, m)
	if (ok || c.loud) && (n.more != nil || len(n.patterns) > 0) {
		ok = c.unnamed(n, v, m) && ok
	}
	if n.names != nil && (ok || c.loud) {
		for _, key := range sorted(v) {
			if !c.quietly(n.names, key, nil, 0) {
				ok = false
				c.add("invalid propertyName '" + key + "'")
			}
		}
	}
	return ok
}

// named checks the properties that the schema names, cheap ones first: they may make others irrelevant, such as a
// const that distinguishes the schemas of oneOf.
func (c *checking) named(n *node, v map[string]any, m *marks) bool {
	ok := true
	if len(n.order) <= len(v) {
		for _, p := range n.order {
			item, has := v[p.key]
			if !has {
				continue
			}
			m.key(p.key)
			if !c.within(p.n, p.key, item) {
				if ok = false; !c.loud {
					return false
				}
			}
		}
		return ok
	}
	for _, deep := range [...]bool{false, true} {
		for key, item := range v {
			of, has := n.props[key]
			if !has || of.deep != deep {
				continue
			}
			m.key(key)
			if !c.within(of, key, item) {
				if ok = false; !c.loud {
					return false
				}
			}
		}
	}
	return ok
}

// unnamed checks properties by patterns, and additional properties.
func (c *checking) unnamed(n *node, v map[string]any, m *marks) bool {
	ok := true
	var extra []string
	for key, item := range v {
		_, known := n.props[key]
		for _, p := range n.patterns {
			if c.spend(p.re.steps(key)) && p.re.MatchString(key) {
				known = true
				ok = c.within(p.n, key, item) && ok
			}
		}
		if !known && n.more != nil {
			known = true
			if n.more.never {
				ok = false
				extra = append(extra, key)
			} else {
				ok = c.within(n.more, key, item) && ok
			}
		}
		if known {
			m.key(key)
		}
		if !ok && !c.loud {
			return false
		}
	}
	if len(extra) > 0 {
		c.extra(extra, "additional")
	}
	return ok
}

// extra reports properties that are not allowed.
func (c *checking) extra(names []string, what string) {
	if c.loud {
		slices.Sort(names)
		c.add(what + " " + properties(names) + " not allowed")
	}
}
