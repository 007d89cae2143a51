package lang

import (
	"slices"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// loops are all loops by name.
var loops = map[string]*loop{}

// TakesPredicate reports whether a function has a predicate, in which .name is a field of the element.
func TakesPredicate(name string) bool { return loops[Canonical(name)] != nil }

func init() {
	for _, l := range []loop{
		{usage: "all(list, predicate) bool", doc: "Whether the predicate is true for all elements.",
			example: `all([1, 2], # > 0) → true`,
			of:      value.List, truth: true, out: value.Bool, run: whether(false, false)},
		{usage: "any(list, predicate) bool", doc: "Whether the predicate is true for any element.",
			example: `any([1, 2], # > 1) → true`,
			of:      value.List, truth: true, out: value.Bool, run: whether(true, true)},
		{usage: "none(list, predicate) bool", doc: "Whether the predicate is true for no element.",
			example: `none([1, 2], # > 2) → true`,
			of:      value.List, truth: true, out: value.Bool, run: whether(true, false)},
		{usage: "one(list, predicate) bool", doc: "Whether the predicate is true for exactly one element.",
			example: `one([1, 2], # > 1) → true`,
			of:      value.List, truth: true, out: value.Bool, run: func(f *Frame, _ *Site, in any, b body, _ []any) any {
				return counted(f, in, b) == 1
			}},
		{usage: "count(list, [predicate]) int",
			doc:     "The number of elements for which the predicate is true, or that are true.",
			example: `count([1, 2, 3], # > 1) → 2`,
			of:      value.List, truth: true, out: value.Int, run: func(f *Frame, _ *Site, in any, b body, _ []any) any {
				return counted(f, in, b)
			}},
		{usage: "filter(list, predicate) list", doc: "The elements for which the predicate is true.",
			example: `filter([{a: 1}, {a: 2}], .a > 1) → [{a: 2}]`,
			of:      value.List, truth: true, makes: ElementSize, out: value.List, run: filtered},
		{usage: "find(list, predicate) any", doc: "The first element for which the predicate is true, or nil.",
			example: `find([1, 2, 3], # > 1) → 2`,
			of:      value.List, truth: true, out: value.Any, run: found(false, false)},
		{usage: "find_index(list, predicate) int",
			doc:     "The index of the first element for which the predicate is true, or nil.",
			example: `find_index([1, 2, 3], # > 1) → 1`,
			of:      value.List, truth: true, out: value.Int | value.Nil, run: found(false, true)},
		{usage: "find_last(list, predicate) any",
			doc:     "The last element for which the predicate is true, or nil.",
			example: `find_last([1, 2, 3], # > 1) → 3`,
			of:      value.List, truth: true, out: value.Any, run: found(true, false)},
		{usage: "find_last_index(list, predicate) int",
			doc:     "The index of the last element for which the predicate is true, or nil.",
			example: `find_last_index([1, 2, 3], # > 1) → 2`,
			of:      value.List, truth: true, out: value.Int | value.Nil, run: found(true, true)},
		{usage: "map(list, expression) list", doc: "The results of the expression for each element.",
			example: `map([1, 2], # * 10) → [10, 20]`,
			of:      value.List, makes: ElementSize, out: value.List, run: mapped},
		{usage: "sum(list, [expression]) number",
			doc:     "The sum of the elements, or of the expression's results for each.",
			example: `sum([{a: 1}, {a: 2}], .a) → 3`,
			of:      value.List, out: value.Int | value.Float, run: func(f *Frame, s *Site, in any, b body, _ []any) any {
				var total any = 0
				for i, v := range in.([]any) {
					n := b.at(f, v, i)
					s.NeedNumber(n)
					total = add(s, total, n)
				}
				return total
			}},
		{usage: "reduce(list, expression, [any]) any",
			doc: "The expression's last result; `#acc` is its result for the previous element, initially the third" +
				" argument. Without that it starts with the first element; an empty list then fails.",
			example: `reduce([1, 2, 3], #acc * 10 + #, 0) → 123`,
			of:      value.List, out: value.Any, run: reduced},
		{usage: "group_by(list, expression) object",
			doc:     "The elements in lists, grouped by the expression's result for each.",
			example: `group_by([1, 2, 3], # > 1 ? "many" : "one") → {many: [2, 3], one: [1]}`,
			of:      value.List, makes: 4 * ElementSize, out: value.Object, run: grouped},
		{usage: "count_by(list, expression) object",
			doc:     "The number of elements for each of the expression's results.",
			example: `count_by(["a", "b", "a"], #) → {a: 2, b: 1}`, form: "map",
			of: value.List, out: value.Object, run: countedBy},
		{usage: "sort_by(list, expression, [text]) list",
			doc:     `The elements sorted by the expression's result for each, "asc" or "desc".`,
			example: `sort_by([{a: 2}, {a: 1}], .a) → [{a: 1}, {a: 2}]`,
			of:      value.List, makes: 4 * ElementSize, out: value.List, run: sortedBy},
		{usage: "uniq_by(list, expression) list",
			doc:     "The elements without those for which the expression's result equals that of an earlier one.",
			example: `uniq_by([{a: 1, b: 1}, {a: 1, b: 2}], .a) → [{a: 1, b: 1}]`, form: "map",
			of: value.List, makes: 3 * ElementSize, out: value.List, run: uniqueBy},
		{usage: "map_values(object, expression) object",
			doc:     "The object with each value replaced by the expression's result; `#` is the value, `#key` its key.",
			example: `map_values({a: 1, b: 2}, # * 10) → {a: 10, b: 20}`, form: "map",
			of: value.Object, out: value.Object, run: mappedValues},
		{usage: "map_keys(object, expression) object",
			doc: "The object with each key replaced by the expression's result, a text; `#key` is the key, `#` its" +
				" value. Two keys that become one are an error.",
			example: `map_keys({a: 1, b: 2}, upper(#key)) → {A: 1, B: 2}`, form: "map",
			of: value.Object, out: value.Object, run: mappedKeys},
		{usage: "filter_values(object, predicate) object",
			doc:     "The keys and values for which the predicate is true; `#` is the value, `#key` its key.",
			example: `filter_values({a: 1, b: nil}, # != nil) → {a: 1}`, form: "map", truth: true,
			of: value.Object, out: value.Object, run: filteredValues},
		{usage: "walk(any, expression) any",
			doc: "The value with each leaf, anything that is neither an object nor a list, replaced by the" +
				" expression's result. `#` is the leaf, `#key` the name of the field that it is in, nil if there is" +
				" none, `#index` its index if it is in a list, and `#path` its path, such as items[0].sku. Where the whole" +
				" expression is a walk() with no other loop in it, fields keep their order.",
			example: `walk({user: {password: "x", tags: ["a"]}}, #key == "password" ? "***" : #) → {user: {password: "***", tags: ["a"]}}`,
			form:    "map",
			of:      value.Any, out: value.Any, run: walked, write: walkWrite},
		{usage: "walk_keys(any, expression) any",
			doc: "The value with each key of its objects, at any depth, replaced by the expression's result, a text; `#` is the" +
				" key. Two keys of an object that become one are an error.",
			example: `walk_keys({User: {ID: 1}}, lower(#)) → {user: {id: 1}}`,
			form:    "map",
			of:      value.Any, out: value.Any, run: keysWalked, write: walkKeysWrite},
	} {
		loops[nameOf(l.usage)] = &l
	}
	for name, snake := range camel {
		if l := loops[snake]; l != nil {
			l.form = name
		}
	}
}

// whether looks for an element for which the predicate gives looked. If there is one, the result is like, else its opposite.
func whether(looked, like bool) func(*Frame, *Site, any, body, []any) any {
	return func(f *Frame, _ *Site, in any, b body, _ []any) any {
		for i, v := range in.([]any) {
			if b.at(f, v, i) == looked {
				return like
			}
		}
		return !like
	}
}

func counted(f *Frame, in any, b body) int {
	n := 0
	for i, v := range in.([]any) {
		if b.at(f, v, i) == true {
			n++
		}
	}
	return n
}

func filtered(f *Frame, _ *Site, in any, b body, _ []any) any {
	list := in.([]any)
	kept := make([]any, 0, len(list))
	for i, v := range list {
		if b.at(f, v, i) == true {
			kept = append(kept, v)
		}
	}
	return kept
}

// found is the first or last element for which the predicate is true, or its index, or nil.
func found(fromEnd, index bool) func(*Frame, *Site, any, body, []any) any {
	return func(f *Frame, _ *Site, in any, b body, _ []any) any {
		list := in.([]any)
		for n := range list {
			i := n
			if fromEnd {
				i = len(list) - 1 - n
			}
			switch {
			case b.at(f, list[i], i) != true:
			case index:
				return i
			default:
				return list[i]
			}
		}
		return nil
	}
}

func mapped(f *Frame, _ *Site, in any, b body, _ []any) any {
	list := in.([]any)
	results := make([]any, len(list))
	for i, v := range list {
		results[i] = b.at(f, v, i)
	}
	return results
}

func reduced(f *Frame, s *Site, in any, b body, third []any) any {
	list, from := in.([]any), 0
	var acc any
	switch {
	case len(third) > 0:
		acc = third[0]
	case len(list) == 0:
		s.FailWith("give it a third argument to start with", "reduce() of an empty list has no value")
	default:
		acc, from = list[0], 1
	}
	for i := from; i < len(list); i++ {
		f.elements[b.slot].acc = acc
		acc = b.at(f, list[i], i)
	}
	return acc
}

// groupKey is the key of the group for a result of the body.
func (f *Frame) groupKey(s *Site, v any) string {
	switch value.KindOf(v) {
	case value.Text:
		return v.(string)
	case value.Bool, value.Int, value.Float, value.Big:
		f.ChargeText(s.Offset, v)
		return string(AppendKeyOf(s, nil, v))
	}
	s.Fail("%s() needs keys that are text, numbers, true or false, not %s", s.Name, s.Show(v))
	return ""
}

func grouped(f *Frame, s *Site, in any, b body, _ []any) any {
	groups := map[string]any{}
	for i, v := range in.([]any) {
		name := f.groupKey(s, b.at(f, v, i))
		group, _ := groups[name].([]any)
		groups[name] = append(group, v)
	}
	f.ChargeMade(s.Offset, groups)
	return groups
}

func countedBy(f *Frame, s *Site, in any, b body, _ []any) any {
	counts := map[string]int{}
	for i, v := range in.([]any) {
		counts[f.groupKey(s, b.at(f, v, i))]++
	}
	object := make(map[string]any, len(counts))
	for k, n := range counts {
		object[k] = n
	}
	f.ChargeMade(s.Offset, object)
	return object
}

// keyed is an element and the result of the body for it.
type keyed struct{ value, key any }

func sortedBy(f *Frame, s *Site, in any, b body, direction []any) any {
	list := in.([]any)
	pairs := make([]keyed, len(list))
	for i, v := range list {
		pairs[i] = keyed{v, b.at(f, v, i)}
	}
	SortBy(f, s, pairs, direction, func(p keyed) any { return p.key })
	sorted := make([]any, len(list))
	for i, p := range pairs {
		sorted[i] = p.value
	}
	return sorted
}

func uniqueBy(f *Frame, s *Site, in any, b body, _ []any) any {
	return Distinct(s, in.([]any), func(i int, v any) any {
		key := b.at(f, v, i)
		f.ChargeText(s.Offset, key)
		return key
	})
}

func mappedValues(f *Frame, s *Site, in any, b body, _ []any) any {
	m := in.(map[string]any)
	f.ChargeObject(s.Offset, len(m))
	results := make(map[string]any, len(m))
	for i, k := range value.SortedKeys(m) {
		results[k] = b.of(f, k, m[k], i)
	}
	return results
}

func mappedKeys(f *Frame, s *Site, in any, b body, _ []any) any {
	m := in.(map[string]any)
	f.ChargeObject(s.Offset, len(m))
	results := make(map[string]any, len(m))
	for i, k := range value.SortedKeys(m) {
		putRenamed(s, results, b.of(f, k, m[k], i), m[k])
	}
	return results
}

func filteredValues(f *Frame, s *Site, in any, b body, _ []any) any {
	m := in.(map[string]any)
	f.ChargeObject(s.Offset, len(m))
	kept := make(map[string]any, len(m))
	for i, k := range value.SortedKeys(m) {
		if b.of(f, k, m[k], i) == true {
			kept[k] = m[k]
		}
	}
	return kept
}

func walked(f *Frame, s *Site, in any, b body, _ []any) any {
	e := &f.elements[b.slot]
	e.path = e.path[:0]
	return walkFrom(f, s, in, b, nil, 0)
}

// walkFrom is a copy of v with its leaves replaced. key is the field that v is in, and index its place in a list.
func walkFrom(f *Frame, s *Site, v any, b body, key any, index int) any {
	e := &f.elements[b.slot]
	depth := len(e.path)
	if depth > value.MaxDepth {
		s.Fail("%s(): the value is nested more than %d deep", s.Name, value.MaxDepth)
	}
	switch v := v.(type) {
	case []any:
		f.ChargeList(s.Offset, len(v))
		list := make([]any, len(v))
		for i, inner := range v {
			e.path = append(e.path[:depth], i)
			list[i] = walkFrom(f, s, inner, b, key, i)
		}
		return list
	case map[string]any:
		f.ChargeObject(s.Offset, len(v))
		m := make(map[string]any, len(v))
		for _, k := range value.SortedKeys(v) {
			e.path = append(e.path[:depth], k)
			m[k] = walkFrom(f, s, v[k], b, k, 0)
		}
		return m
	}
	e.key, e.raw = key, nil
	return b.at(f, v, index)
}

func keysWalked(f *Frame, s *Site, in any, b body, _ []any) any { return walkKeysFrom(f, s, in, b, 0) }

// walkKeysFrom is a copy of v with its keys replaced.
func walkKeysFrom(f *Frame, s *Site, v any, b body, depth int) any {
	if depth > value.MaxDepth {
		s.Fail("%s(): the value is nested more than %d deep", s.Name, value.MaxDepth)
	}
	switch v := v.(type) {
	case []any:
		f.ChargeList(s.Offset, len(v))
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = walkKeysFrom(f, s, inner, b, depth+1)
		}
		return list
	case map[string]any:
		f.ChargeObject(s.Offset, len(v))
		m := make(map[string]any, len(v))
		for _, k := range value.SortedKeys(v) {
			f.elements[b.slot].raw = nil
			name := b.at(f, k, 0)
			putRenamed(s, m, name, walkKeysFrom(f, s, v[k], b, depth+1))
		}
		return m
	}
	return v
}

// putRenamed adds a field under the name that a loop has given it.
func putRenamed(s *Site, m map[string]any, name, v any) {
	text, ok := name.(string)
	if !ok {
		s.Fail("%s() needs keys that are text, not %s", s.Name, s.Show(name))
	}
	if _, taken := m[text]; taken {
		s.Fail("%s() makes the key %q of two keys", s.Name, value.Clip(text))
	}
	m[text] = v
}

// Distinct are the elements of a list whose keys differ from those of all elements before them.
func Distinct(s *Site, list []any, key func(i int, v any) any) []any {
	seen := make(map[string]bool, len(list))
	var text []byte
	once := make([]any, 0, len(list))
	for i, v := range list {
		text = AppendKeyOf(s, text[:0], key(i, v))
		if !seen[string(text)] {
			seen[string(text)] = true
			once = append(once, v)
		}
	}
	return once
}

// SortBy sorts a list by the keys of its elements, stably. The direction is empty, or "asc" or "desc".
func SortBy[E any](f *Frame, s *Site, list []E, direction []any, key func(e E) any) {
	sign := 1
	if len(direction) > 0 {
		switch direction[0] {
		case "asc":
		case "desc":
			sign = -1
		default:
			s.Fail(`%s() sorts "asc" or "desc", not %s`, s.Name, s.Show(direction[0]))
		}
	}
	slices.SortStableFunc(list, func(a, b E) int {
		x, y := key(a), key(b)
		f.Step(s.Offset, 1)
		if text, ok := x.(string); ok {
			f.Step(s.Offset, len(text)>>7)
		}
		c, ok := value.Order(x, y)
		if !ok {
			s.Fail("%s() cannot compare %s with %s", s.Name, s.Show(x), s.Show(y))
		}
		return sign * c
	})
}
