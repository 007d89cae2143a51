package expr

import (
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// loops are the functions that are loops, by name.
var loops = map[string]*loop{}

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
			of:      value.List, truth: true, out: value.Bool, run: func(f *frame, _ *site, in any, b body, _ []any) any {
				return counted(f, in, b) == 1
			}},
		{usage: "count(list, [predicate]) int",
			doc:     "The number of elements for which the predicate is true, or that are true.",
			example: `count([1, 2, 3], # > 1) → 2`,
			of:      value.List, truth: true, out: value.Int, run: func(f *frame, _ *site, in any, b body, _ []any) any {
				return counted(f, in, b)
			}},
		{usage: "filter(list, predicate) list", doc: "The elements for which the predicate is true.",
			example: `filter([{a: 1}, {a: 2}], .a > 1) → [{a: 2}]`,
			of:      value.List, truth: true, makes: elementSize, out: value.List, run: filtered},
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
			of:      value.List, makes: elementSize, out: value.List, run: mapped},
		{usage: "sum(list, [expression]) number",
			doc:     "The sum of the elements, or of the expression's results for each.",
			example: `sum([{a: 1}, {a: 2}], .a) → 3`,
			of:      value.List, out: value.Int | value.Float, run: func(f *frame, s *site, in any, b body, _ []any) any {
				var total any = 0
				for i, v := range in.([]any) {
					n := b.at(f, v, i)
					s.number(n)
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
			of:      value.List, makes: 4 * elementSize, out: value.Object, run: grouped},
		{usage: "count_by(list, expression) object",
			doc:     "The number of elements for each of the expression's results.",
			example: `count_by(["a", "b", "a"], #) → {a: 2, b: 1}`, form: "map",
			of: value.List, out: value.Object, run: countedBy},
		{usage: "sort_by(list, expression, [text]) list",
			doc:     `The elements sorted by the expression's result for each, "asc" or "desc".`,
			example: `sort_by([{a: 2}, {a: 1}], .a) → [{a: 1}, {a: 2}]`,
			of:      value.List, makes: 4 * elementSize, out: value.List, run: sortedBy},
		{usage: "uniq_by(list, expression) list",
			doc:     "The elements without those for which the expression's result equals that of an earlier one.",
			example: `uniq_by([{a: 1, b: 1}, {a: 1, b: 2}], .a) → [{a: 1, b: 1}]`, form: "map",
			of: value.List, makes: 3 * elementSize, out: value.List, run: uniqueBy},
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
				" none, `#index` its index if it is in a list, and `#path` its path, such as items[0].sku.",
			example: `walk({user: {password: "x", tags: ["a"]}}, #key == "password" ? "***" : #) → {user: {password: "***", tags: ["a"]}}`,
			form:    "map",
			of:      value.Any, out: value.Any, run: walked, write: walkWrite},
	} {
		loops[nameOf(l.usage)] = &l
	}
	for name, snake := range camel {
		if l := loops[snake]; l != nil {
			l.form = name
		}
	}
}

// whether looks for an element whose predicate is like looked, and gives like if there is one.
func whether(looked, like bool) func(*frame, *site, any, body, []any) any {
	return func(f *frame, _ *site, in any, b body, _ []any) any {
		for i, v := range in.([]any) {
			if b.at(f, v, i) == looked {
				return like
			}
		}
		return !like
	}
}

func counted(f *frame, in any, b body) int {
	n := 0
	for i, v := range in.([]any) {
		if b.at(f, v, i) == true {
			n++
		}
	}
	return n
}

func filtered(f *frame, _ *site, in any, b body, _ []any) any {
	list := in.([]any)
	kept := make([]any, 0, len(list))
	for i, v := range list {
		if b.at(f, v, i) == true {
			kept = append(kept, v)
		}
	}
	return kept
}

// found gives an element, or its index; nil if there is none.
func found(fromEnd, index bool) func(*frame, *site, any, body, []any) any {
	return func(f *frame, _ *site, in any, b body, _ []any) any {
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

func mapped(f *frame, _ *site, in any, b body, _ []any) any {
	list := in.([]any)
	results := make([]any, len(list))
	for i, v := range list {
		results[i] = b.at(f, v, i)
	}
	return results
}

func reduced(f *frame, s *site, in any, b body, third []any) any {
	list, from := in.([]any), 0
	var acc any
	switch {
	case len(third) > 0:
		acc = third[0]
	case len(list) == 0:
		s.failFor("give it a third argument to start with", "reduce() of an empty list has no value")
	default:
		acc, from = list[0], 1
	}
	for i := from; i < len(list); i++ {
		f.elements[b.slot].acc = acc
		acc = b.at(f, list[i], i)
	}
	return acc
}

// groupKey is the key of an object for what a loop's body gave.
func (f *frame) groupKey(s *site, v any) string {
	switch value.KindOf(v) {
	case value.Text:
		return v.(string)
	case value.Bool, value.Int, value.Float, value.Big:
		f.encode(s.offset, v)
		return string(appendKey(s, nil, v))
	}
	s.fail("%s() needs keys that are text, numbers, true or false, not %s", s.name, s.left(v))
	return ""
}

func grouped(f *frame, s *site, in any, b body, _ []any) any {
	groups := map[string]any{}
	for i, v := range in.([]any) {
		name := f.groupKey(s, b.at(f, v, i))
		group, _ := groups[name].([]any)
		groups[name] = append(group, v)
	}
	f.made(s.offset, groups)
	return groups
}

func countedBy(f *frame, s *site, in any, b body, _ []any) any {
	counts := map[string]int{}
	for i, v := range in.([]any) {
		counts[f.groupKey(s, b.at(f, v, i))]++
	}
	object := make(map[string]any, len(counts))
	for k, n := range counts {
		object[k] = n
	}
	f.made(s.offset, object)
	return object
}

// keyed is an element and what the body gave for it.
type keyed struct{ value, key any }

func sortedBy(f *frame, s *site, in any, b body, direction []any) any {
	list := in.([]any)
	pairs := make([]keyed, len(list))
	for i, v := range list {
		pairs[i] = keyed{v, b.at(f, v, i)}
	}
	sortBy(f, s, pairs, direction, func(p keyed) any { return p.key })
	sorted := make([]any, len(list))
	for i, p := range pairs {
		sorted[i] = p.value
	}
	return sorted
}

func uniqueBy(f *frame, s *site, in any, b body, _ []any) any {
	return distinct(s, in.([]any), func(i int, v any) any {
		key := b.at(f, v, i)
		f.encode(s.offset, key)
		return key
	})
}

func mappedValues(f *frame, s *site, in any, b body, _ []any) any {
	m := in.(map[string]any)
	f.madeObject(s.offset, len(m))
	results := make(map[string]any, len(m))
	for i, k := range value.SortedKeys(m) {
		results[k] = b.of(f, k, m[k], i)
	}
	return results
}

func mappedKeys(f *frame, s *site, in any, b body, _ []any) any {
	m := in.(map[string]any)
	f.madeObject(s.offset, len(m))
	results := make(map[string]any, len(m))
	for i, k := range value.SortedKeys(m) {
		v := b.of(f, k, m[k], i)
		name, ok := v.(string)
		if !ok {
			s.fail("%s() needs keys that are text, not %s", s.name, s.left(v))
		}
		if _, taken := results[name]; taken {
			s.fail("%s() makes the key %q of two keys", s.name, value.Clip(name))
		}
		results[name] = m[k]
	}
	return results
}

func filteredValues(f *frame, s *site, in any, b body, _ []any) any {
	m := in.(map[string]any)
	f.madeObject(s.offset, len(m))
	kept := make(map[string]any, len(m))
	for i, k := range value.SortedKeys(m) {
		if b.of(f, k, m[k], i) == true {
			kept[k] = m[k]
		}
	}
	return kept
}

func walked(f *frame, s *site, in any, b body, _ []any) any {
	e := &f.elements[b.slot]
	e.path = e.path[:0]
	return walkFrom(f, s, in, b, nil, 0)
}

// walkFrom is a copy of v, its leaves replaced. key is the field that v is in; index is its place there.
func walkFrom(f *frame, s *site, v any, b body, key any, index int) any {
	e := &f.elements[b.slot]
	depth := len(e.path)
	if depth > value.MaxDepth {
		s.fail("%s(): the value is nested more than %d deep", s.name, value.MaxDepth)
	}
	switch v := v.(type) {
	case []any:
		f.madeList(s.offset, len(v))
		list := make([]any, len(v))
		for i, inner := range v {
			e.path = append(e.path[:depth], i)
			list[i] = walkFrom(f, s, inner, b, key, i)
		}
		return list
	case map[string]any:
		f.madeObject(s.offset, len(v))
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
