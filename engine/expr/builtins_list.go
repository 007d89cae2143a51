package expr

import (
	"maps"
	"slices"
)

var lists = builtins{
	{"first(list) any", "The first element, or nil.",
		func(f *frame, s *site, args []any) any { return member(args[0], 0) }},
	{"last(list) any", "The last element, or nil.",
		func(f *frame, s *site, args []any) any { return member(args[0], -1) }},
	{"take(list, int) list", "The first elements, this many.", func(f *frame, s *site, args []any) any {
		list, n := args[0].([]any), args[1].(int)
		if n < 0 {
			fail(s.offset, "take() can't take %d elements", n)
		}
		return list[:min(n, len(list))]
	}},
	{"reverse(list) list", "The elements from last to first.", func(f *frame, s *site, args []any) any {
		list := slices.Clone(args[0].([]any))
		slices.Reverse(list)
		return list
	}},
	{"uniq(list) list", "The elements without repetitions.", uniq},
	{"concat(list...) list", "The elements of all lists.", func(f *frame, s *site, args []any) any {
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
	{"flatten(list) list", "The elements, with inner lists replaced by their elements.",
		func(f *frame, s *site, args []any) any {
			return flatten(f, s, nil, args[0].([]any), 0)
		}},
	{"sort(list, [text]) list", `The elements in order, "asc" or "desc".`, func(f *frame, s *site, args []any) any {
		list := slices.Clone(args[0].([]any))
		sortBy(f, s, list, args[1:], func(v any) any { return v })
		return list
	}},
	{"min(any...) any", "The smallest number of the arguments and of the lists among them.", extreme(-1)},
	{"max(any...) any", "The largest number of the arguments and of the lists among them.", extreme(1)},
	{"mean(any...) float", "The mean of the numbers; 0 if there are none.", func(f *frame, s *site, args []any) any {
		flat := flatten(f, s, nil, args, 0)
		total := 0.0
		for _, v := range flat {
			s.number(v)
			total += toFloat(f, s, []any{v}).(float64)
		}
		return s.finite(total / float64(max(len(flat), 1)))
	}},
	{"median(any...) any", "The median of the numbers; 0 if there are none.", median},
	{"keys(object) list", "The keys, sorted.", func(f *frame, s *site, args []any) any {
		return pairs(args[0], func(k string, _ any) any { return k })
	}},
	{"values(object) list", "The values, sorted by key.", func(f *frame, s *site, args []any) any {
		return pairs(args[0], func(_ string, v any) any { return v })
	}},
	{"toPairs(object) list", "A list [key, value] for each key, sorted.", func(f *frame, s *site, args []any) any {
		f.alloc(s.offset, len(args[0].(map[string]any))*2*elementSize)
		return pairs(args[0], func(k string, v any) any { return []any{k, v} })
	}},
	{"fromPairs(list) object", "The object of a list of lists [key, value].", fromPairs},
}

func pairs(object any, of func(k string, v any) any) any {
	m := object.(map[string]any)
	list := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
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
			fail(s.offset, "fromPairs() needs lists of a key and a value")
		}
		key, ok := pair[0].(string)
		if !ok {
			fail(s.offset, "fromPairs() needs keys that are text, not %s", s.left(pair[0]))
		}
		m[key] = pair[1]
	}
	return m
}

func uniq(f *frame, s *site, args []any) any {
	list := args[0].([]any)
	f.encode(s.offset, list)
	f.alloc(s.offset, len(list)*2*elementSize)
	seen := make(map[string]bool, len(list))
	var key []byte
	once := make([]any, 0, len(list))
	for _, v := range list {
		key = appendKey(s, key[:0], v)
		if !seen[string(key)] {
			seen[string(key)] = true
			once = append(once, v)
		}
	}
	return once
}

func flatten(f *frame, s *site, into, list []any, depth int) []any {
	if depth > maxDepth {
		fail(s.offset, "%s(): the list is nested more than %d deep", s.name, maxDepth)
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
func sortBy(f *frame, s *site, list []any, direction []any, key func(v any) any) {
	sign := 1
	if len(direction) > 0 {
		switch direction[0] {
		case "asc":
		case "desc":
			sign = -1
		default:
			fail(s.offset, `%s() sorts "asc" or "desc", not %s`, s.name, s.left(direction[0]))
		}
	}
	slices.SortStableFunc(list, func(a, b any) int {
		x, y := key(a), key(b)
		f.step(s.offset, 1)
		if text, ok := x.(string); ok {
			f.step(s.offset, len(text)>>7)
		}
		c, ok := order(x, y)
		if !ok {
			fail(s.offset, "%s() cannot compare %s with %s", s.name, s.left(x), s.left(y))
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
			if best == nil || compareNumbers(v, best) == sign {
				best = v
			}
		}
		return best
	}
}

func (s *site) number(v any) {
	if kindOf(v)&kNumber == 0 {
		fail(s.offset, "%s() needs numbers, not %s", s.name, s.left(v))
	}
}

// median is one of the numbers, as exact as it is, or the mean of the two in the middle.
func median(f *frame, s *site, args []any) any {
	flat := flatten(f, s, nil, args, 0)
	for _, v := range flat {
		s.number(v)
	}
	f.step(s.offset, 4*len(flat))
	slices.SortFunc(flat, compareNumbers)
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
	{"bitand(int, int) int", "Bits that are set in both.", upstream("bitand")},
	{"bitor(int, int) int", "Bits that are set in either.", upstream("bitor")},
	{"bitxor(int, int) int", "Bits that are set in one of them only.", upstream("bitxor")},
	{"bitnand(int, int) int", "Bits of the first that are not set in the second.", upstream("bitnand")},
	{"bitnot(int) int", "All bits inverted.", upstream("bitnot")},
	{"bitshl(int, int) int", "Bits moved left.", upstream("bitshl")},
	{"bitshr(int, int) int", "Bits moved right, the sign kept.", upstream("bitshr")},
	{"bitushr(int, int) int", "Bits moved right, zeros moved in.", upstream("bitushr")},
}
