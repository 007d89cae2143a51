package expr

import (
	"slices"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var lists = builtins{
	{"first(list) any",
		"The first element, or nil.",
		`first([3, 1]) → 3`,
		func(f *frame, s *site, args []any) any { return value.Member(args[0], 0) }},
	{"last(list) any",
		"The last element, or nil.",
		`last([3, 1]) → 1`,
		func(f *frame, s *site, args []any) any { return value.Member(args[0], -1) }},
	{"take(list, int) list",
		"The first elements, at most this many.",
		`take([3, 1, 2], 2) → [3, 1]`,
		func(f *frame, s *site, args []any) any {
			list, n := args[0].([]any), args[1].(int)
			if n < 0 {
				s.fail("take() can't take %d elements", n)
			}
			return list[:min(n, len(list))]
		}},
	{"reverse(list|text) list|text",
		"The elements or characters from last to first.",
		`reverse([3, 1]) → [1, 3]
reverse("héllo") → "olléh"`,
		func(f *frame, s *site, args []any) any {
			if text, ok := args[0].(string); ok {
				f.room(s.offset, 2*len(text))
				return backwards(text)
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
		func(f *frame, s *site, args []any) any {
			n := 0
			for _, a := range args {
				n += len(a.([]any))
			}
			f.room(s.offset, n*elementSize)
			all := make([]any, 0, n)
			for _, a := range args {
				all = append(all, a.([]any)...)
			}
			return all
		}},
	{"flatten(list) list",
		"The elements, with inner lists replaced by their elements.",
		`flatten([1, [2, [3]]]) → [1, 2, 3]`,
		func(f *frame, s *site, args []any) any {
			return flatten(f, s, nil, args[0].([]any), 0)
		}},
	{"sort(list, [text]) list",
		`The elements in order, "asc" or "desc".`,
		`sort([3, 1, 2], "desc") → [3, 2, 1]`,
		func(f *frame, s *site, args []any) any {
			list := slices.Clone(args[0].([]any))
			sortBy(f, s, list, args[1:], func(v any) any { return v })
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
		func(f *frame, s *site, args []any) any {
			flat := flatten(f, s, nil, args, 0)
			total := 0.0
			for _, v := range flat {
				s.number(v)
				total += toFloat(f, s, []any{v}).(float64)
			}
			return s.finite(total / float64(max(len(flat), 1)))
		}},
	{"median(any...) any",
		"The median of the numbers; 0 if there are none.",
		`median([3, 1, 2]) → 2`,
		median},
	{"keys(object) list",
		"The keys, sorted.",
		`keys({b: 1, a: 2}) → ["a", "b"]`,
		func(f *frame, s *site, args []any) any {
			return pairs(args[0], func(k string, _ any) any { return k })
		}},
	{"values(object) list",
		"The values, sorted by key.",
		`values({b: 1, a: 2}) → [2, 1]`,
		func(f *frame, s *site, args []any) any {
			return pairs(args[0], func(_ string, v any) any { return v })
		}},
	{"to_pairs(object) list",
		"A pair [key, value] for each key, sorted.",
		`to_pairs({a: 1}) → [["a", 1]]`,
		func(f *frame, s *site, args []any) any {
			f.alloc(s.offset, len(args[0].(map[string]any))*2*elementSize)
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

func fromPairs(f *frame, s *site, args []any) any {
	list := args[0].([]any)
	m := make(map[string]any, len(list))
	for _, v := range list {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			s.fail("%s() needs lists of a key and a value", s.name)
		}
		key, ok := pair[0].(string)
		if !ok {
			s.fail("%s() needs keys that are text, not %s", s.name, s.left(pair[0]))
		}
		m[key] = pair[1]
	}
	return m
}

func uniq(f *frame, s *site, args []any) any {
	list := args[0].([]any)
	f.encode(s.offset, list)
	f.alloc(s.offset, len(list)*2*elementSize)
	return distinct(s, list, func(_ int, v any) any { return v })
}

// distinct are the elements of a list without those whose key is one of an element before.
func distinct(s *site, list []any, key func(i int, v any) any) []any {
	seen := make(map[string]bool, len(list))
	var text []byte
	once := make([]any, 0, len(list))
	for i, v := range list {
		text = appendKey(s, text[:0], key(i, v))
		if !seen[string(text)] {
			seen[string(text)] = true
			once = append(once, v)
		}
	}
	return once
}

func flatten(f *frame, s *site, into, list []any, depth int) []any {
	if depth > value.MaxDepth {
		s.fail("%s(): the list is nested more than %d deep", s.name, value.MaxDepth)
	}
	f.step(s.offset, len(list))
	for _, v := range list {
		if inner, ok := v.([]any); ok {
			into = flatten(f, s, into, inner, depth+1)
		} else {
			into = append(into, v)
			f.alloc(s.offset, elementSize)
		}
	}
	return into
}

// sortBy sorts stably by what key gives for each element.
func sortBy[E any](f *frame, s *site, list []E, direction []any, key func(e E) any) {
	sign := 1
	if len(direction) > 0 {
		switch direction[0] {
		case "asc":
		case "desc":
			sign = -1
		default:
			s.fail(`%s() sorts "asc" or "desc", not %s`, s.name, s.left(direction[0]))
		}
	}
	slices.SortStableFunc(list, func(a, b E) int {
		x, y := key(a), key(b)
		f.step(s.offset, 1)
		if text, ok := x.(string); ok {
			f.step(s.offset, len(text)>>7)
		}
		c, ok := value.Order(x, y)
		if !ok {
			s.fail("%s() cannot compare %s with %s", s.name, s.left(x), s.left(y))
		}
		return sign * c
	})
}

// extreme is the largest (sign 1) or smallest number among arguments and lists.
func extreme(sign int) func(*frame, *site, []any) any {
	return func(f *frame, s *site, args []any) any {
		var best any
		for _, v := range flatten(f, s, nil, args, 0) {
			s.number(v)
			if best == nil || value.CompareNumbers(v, best) == sign {
				best = v
			}
		}
		return best
	}
}

func (s *site) number(v any) {
	if value.KindOf(v)&value.Number == 0 {
		s.fail("%s() needs numbers, not %s", s.name, s.left(v))
	}
}

// median is one of the numbers, as exact as it is, or the mean of the two in the middle.
func median(f *frame, s *site, args []any) any {
	flat := flatten(f, s, nil, args, 0)
	for _, v := range flat {
		s.number(v)
	}
	f.step(s.offset, 4*len(flat))
	slices.SortFunc(flat, value.CompareNumbers)
	middle := len(flat) / 2
	switch {
	case len(flat) == 0:
		return 0.0
	case len(flat)%2 == 1:
		return flat[middle]
	}
	a, b := toFloat(f, s, flat[middle-1:middle]).(float64), toFloat(f, s, flat[middle:middle+1]).(float64)
	return a/2 + b/2
}

var bitwise = builtins{
	{"bitand(int, int) int",
		"Bits that are set in both.",
		`bitand(6, 3) → 2`,
		upstream("bitand")},
	{"bitor(int, int) int",
		"Bits that are set in either.",
		`bitor(6, 3) → 7`,
		upstream("bitor")},
	{"bitxor(int, int) int",
		"Bits that are set in exactly one of them.",
		`bitxor(6, 3) → 5`,
		upstream("bitxor")},
	{"bitnand(int, int) int",
		"Bits of the first that are not set in the second.",
		`bitnand(6, 3) → 4`,
		upstream("bitnand")},
	{"bitnot(int) int",
		"All bits inverted.",
		`bitnot(6) → -7`,
		upstream("bitnot")},
	{"bitshl(int, int) int",
		"Bits shifted left.",
		`bitshl(1, 4) → 16`,
		shift("bitshl")},
	{"bitshr(int, int) int",
		"Bits shifted right, keeping the sign.",
		`bitshr(-16, 2) → -4`,
		shift("bitshr")},
	{"bitushr(int, int) int",
		"Bits shifted right, filling with zeros.",
		`bitushr(16, 2) → 4`,
		shift("bitushr")},
}

// shift is expr's own shift, by a number of bits that is not negative.
func shift(name string) func(f *frame, s *site, args []any) any {
	run := upstream(name)
	return func(f *frame, s *site, args []any) any {
		if args[1].(int) < 0 {
			s.fail("%s() can't shift by fewer than 0 bits, as %s asks for", s.name, s.left(args[1]))
		}
		return run(f, s, args)
	}
}
