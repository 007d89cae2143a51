// Package lists has the functions for lists and objects. Those that evaluate an expression for each element are loops of
// package lang.
package lists

import (
	"slices"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares the functions of lists and objects.
func Declare() {
	const group = "lists and objects"
	lists.Declare(group, true)
	objects.Declare(group, true)
	jsonPaths.Declare(group, true)
	for _, name := range []string{"first", "last", "take"} {
		lang.Lookup(name).Shallow = true
	}
}

var lists = lang.Builtins{
	{"first(list) any",
		"The first element, or nil.",
		`first([3, 1]) → 3`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return value.Member(args[0], 0) }},
	{"last(list) any",
		"The last element, or nil.",
		`last([3, 1]) → 1`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return value.Member(args[0], -1) }},
	{"take(list, int) list",
		"The first elements, at most this many.",
		`take([3, 1, 2], 2) → [3, 1]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			list, n := args[0].([]any), args[1].(int)
			if n < 0 {
				s.Fail("take() can't take %d elements", n)
			}
			return list[:min(n, len(list))]
		}},
	{"reverse(list|text) list|text",
		"The elements or characters from last to first.",
		`reverse([3, 1]) → [1, 3]
reverse("héllo") → "olléh"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			if text, ok := args[0].(string); ok {
				f.CheckRoom(s.Offset, 2*len(text))
				return reversed(text)
			}
			list := slices.Clone(args[0].([]any))
			slices.Reverse(list)
			return list
		}},
	{"uniq(list) list",
		"The elements without duplicates.",
		`uniq([1, 2, 1.0]) → [1, 2]`,
		uniq},
	{"concat(list...) list",
		"The elements of all lists.",
		`concat([1], [2, 3]) → [1, 2, 3]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			n := 0
			for _, a := range args {
				n += len(a.([]any))
			}
			f.CheckRoom(s.Offset, n*lang.ElementSize)
			all := make([]any, 0, n)
			for _, a := range args {
				all = append(all, a.([]any)...)
			}
			return all
		}},
	{"flatten(list) list",
		"The elements, with inner lists replaced by their elements.",
		`flatten([1, [2, [3]]]) → [1, 2, 3]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return flatten(f, s, nil, args[0].([]any), 0)
		}},
	{"sort(list, [text]) list",
		`The elements in order, "asc" or "desc".`,
		`sort([3, 1, 2], "desc") → [3, 2, 1]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			list := slices.Clone(args[0].([]any))
			lang.SortBy(f, s, list, args[1:], func(v any) any { return v })
			return list
		}},
	{"min(any...) any",
		"The smallest number among the arguments, including those in lists.",
		`min(3, [1, 2]) → 1`,
		extreme(-1)},
	{"max(any...) any",
		"The largest number among the arguments, including those in lists.",
		`max(3, [1, 2]) → 3`,
		extreme(1)},
	{"mean(any...) float",
		"The mean of the numbers; 0 if there are none.",
		`mean([1, 2]) → 1.5`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			flat := flatten(f, s, nil, args, 0)
			total := 0.0
			for _, v := range flat {
				s.NeedNumber(v)
				total += lang.ToFloat(f, s, []any{v}).(float64)
			}
			return s.Finite(total / float64(max(len(flat), 1)))
		}},
	{"median(any...) any",
		"The median of the numbers; 0 if there are none.",
		`median([3, 1, 2]) → 2`,
		median},
	{"keys(object) list",
		"The keys, sorted.",
		`keys({b: 1, a: 2}) → ["a", "b"]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return pairs(args[0], func(k string, _ any) any { return k })
		}},
	{"values(object) list",
		"The values, sorted by key.",
		`values({b: 1, a: 2}) → [2, 1]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return pairs(args[0], func(_ string, v any) any { return v })
		}},
	{"to_pairs(object) list",
		"A pair [key, value] for each key, sorted.",
		`to_pairs({a: 1}) → [["a", 1]]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			f.Alloc(s.Offset, len(args[0].(map[string]any))*2*lang.ElementSize)
			return pairs(args[0], func(k string, v any) any { return []any{k, v} })
		}},
	{"from_pairs(list) object",
		"An object made from a list of pairs [key, value].",
		`from_pairs([["a", 1]]) → {a: 1}`,
		fromPairs},
}

func pairs(object any, of func(k string, v any) any) any {
	m := object.(map[string]any)
	list := make([]any, 0, len(m))
	for _, k := range value.SortedKeys(m) {
		list = append(list, of(k, m[k]))
	}
	return list
}

func fromPairs(f *lang.Frame, s *lang.Site, args []any) any {
	list := args[0].([]any)
	m := make(map[string]any, len(list))
	for _, v := range list {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			s.Fail("%s() needs lists of a key and a value", s.Name)
		}
		key, ok := pair[0].(string)
		if !ok {
			s.Fail("%s() needs keys that are text, not %s", s.Name, s.Show(pair[0]))
		}
		m[key] = pair[1]
	}
	return m
}

func uniq(f *lang.Frame, s *lang.Site, args []any) any {
	list := args[0].([]any)
	f.ChargeText(s.Offset, list)
	f.Alloc(s.Offset, len(list)*2*lang.ElementSize)
	return lang.Distinct(s, list, func(_ int, v any) any { return v })
}

func flatten(f *lang.Frame, s *lang.Site, into, list []any, depth int) []any {
	if depth > value.MaxDepth {
		s.Fail("%s(): the list is nested more than %d deep", s.Name, value.MaxDepth)
	}
	f.Step(s.Offset, len(list))
	for _, v := range list {
		if inner, ok := v.([]any); ok {
			into = flatten(f, s, into, inner, depth+1)
		} else {
			into = append(into, v)
			f.Alloc(s.Offset, lang.ElementSize)
		}
	}
	return into
}

// extreme is the largest (sign 1) or smallest number among arguments and lists.
func extreme(sign int) func(*lang.Frame, *lang.Site, []any) any {
	return func(f *lang.Frame, s *lang.Site, args []any) any {
		var best any
		for _, v := range flatten(f, s, nil, args, 0) {
			s.NeedNumber(v)
			if best == nil || value.CompareNumbers(v, best) == sign {
				best = v
			}
		}
		return best
	}
}

// median is one of the numbers, as exact as it is, or the mean of the two in the middle.
func median(f *lang.Frame, s *lang.Site, args []any) any {
	flat := flatten(f, s, nil, args, 0)
	for _, v := range flat {
		s.NeedNumber(v)
	}
	f.Step(s.Offset, 4*len(flat))
	slices.SortFunc(flat, value.CompareNumbers)
	middle := len(flat) / 2
	switch {
	case len(flat) == 0:
		return 0.0
	case len(flat)%2 == 1:
		return flat[middle]
	}
	a, b := lang.ToFloat(f, s, flat[middle-1:middle]).(float64), lang.ToFloat(f, s, flat[middle:middle+1]).(float64)
	return a/2 + b/2
}

// reversed is a text from its last character to its first.
func reversed(text string) string {
	b := make([]byte, 0, len(text))
	for text != "" {
		_, size := utf8.DecodeLastRuneInString(text)
		b = append(b, text[len(text)-size:]...)
		text = text[:len(text)-size]
	}
	return string(b)
}
