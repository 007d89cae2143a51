package lists

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var objects = lang.Builtins{
	{"merge(object, object, [text]) object",
		`The first object with the second's fields merged in, at all depths; a list in the second replaces one in the first,` +
			` unless the text is "append" or "union".`,
		`merge({a: {b: 1, c: [1]}}, {a: {b: 2, c: [2]}}) → {a: {b: 2, c: [2]}}` + "\n" +
			`merge({c: [1, 2]}, {c: [2, 3]}, "union") → {c: [1, 2, 3]}`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			lists := "replace"
			if len(args) == 3 {
				lists = args[2].(string)
			}
			if !slices.Contains([]string{"replace", "append", "union"}, lists) {
				s.Fail(`%s(): lists are merged by "replace", "append" or "union", not %s`, s.Name, s.Show(args[2]))
			}
			return merge(f, s, args[0].(map[string]any), args[1].(map[string]any), lists)
		}},
	{"pick(object, text|list...) object",
		"The object with only the fields at these paths, as far as they exist.",
		`pick({id: 1, user: {name: "ann", age: 3}}, "id", "user.name") → {id: 1, user: {name: "ann"}}`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			picked := map[string]any{}
			for _, keys := range fieldPaths(s, args[1:]) {
				f.Step(s.Offset, len(keys))
				pick(f, s, picked, args[0], keys)
			}
			return picked
		}},
	{"without(object, text|list...) object",
		"The object without the fields at these paths.",
		`without({id: 1, user: {name: "ann", age: 3}}, "user.age") → {id: 1, user: {name: "ann"}}`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			var rest any = args[0]
			for _, keys := range fieldPaths(s, args[1:]) {
				f.Step(s.Offset, len(keys))
				rest = without(f, s, rest, keys)
			}
			return rest
		}},
	{"flatten_keys(object, [text]) object",
		"The leaves of the object, each under its path, joined by dots or the text; indexes are numbers.",
		`flatten_keys({a: {b: 1}, c: [2, 3]}) → {"a.b": 1, "c.0": 2, "c.1": 3}`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			flat := map[string]any{}
			for _, k := range value.SortedKeys(args[0].(map[string]any)) {
				flattenKeys(f, s, flat, k, separator(s, args), args[0].(map[string]any)[k], 1)
			}
			return flat
		}},
	{"unflatten_keys(object, [text]) object",
		"The reverse of `flatten_keys`: keys with dots, or the text, become objects, and those with keys 0, 1 … become lists." +
			" Fails if a key is both a value and the beginning of another.",
		`unflatten_keys({"a.b": 1, "c.0": 2, "c.1": 3}) → {a: {b: 1}, c: [2, 3]}`,
		unflattenKeys},
	{"diff(any, any) list",
		"How the second value differs from the first, as {path, change, from, to}, by path; change is added, removed or changed." +
			" Lists are compared by index.",
		`diff({a: 1, b: [1]}, {a: 2, b: [1, 5]}) → [{path: "a", change: "changed", from: 1, to: 2}, {path: "b[1]", change: "added", to: 5}]`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return diff(f, s, []any{}, nil, args[0], args[1]) }},
	{"zip(list, list...) list",
		"Lists of the first elements, of the second ones, and so on; all lists must be equally long.",
		`zip([1, 2], ["a", "b"]) → [[1, "a"], [2, "b"]]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			n := len(args[0].([]any))
			f.Alloc(s.Offset, n*(len(args)+1)*lang.ElementSize)
			rows := make([]any, n)
			for i := range rows {
				row := make([]any, len(args))
				for j, list := range args {
					if m := len(list.([]any)); m != n {
						s.Fail("%s() needs lists of equal length, not %d and %d elements", s.Name, n, m)
					}
					row[j] = list.([]any)[i]
				}
				rows[i] = row
			}
			return rows
		}},
	{"chunk(list, int) list",
		"The elements in lists of this length; the last may be shorter.",
		`chunk([1, 2, 3], 2) → [[1, 2], [3]]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			list, n := args[0].([]any), args[1].(int)
			if n < 1 {
				s.Fail("%s() needs at least 1 element a list, not %d", s.Name, n)
			}
			chunks := make([]any, 0, (len(list)-1)/n+1)
			for c := range slices.Chunk(list, n) {
				chunks = append(chunks, c)
			}
			return chunks
		}},
	{"enumerate(list) list",
		"The elements with their indexes, as {index, value}.",
		`enumerate(["a"]) → [{index: 0, value: "a"}]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			list := args[0].([]any)
			pairs := make([]any, len(list))
			for i, v := range list {
				f.ChargeObject(s.Offset, 2)
				pairs[i] = map[string]any{"index": i, "value": v}
			}
			return pairs
		}},
	{"not_empty(text|list|object|bytes) text|list|object|bytes",
		"The value itself; fails if it is an empty text, list or object.",
		`not_empty("a") → "a"` + "\n" + `not_empty("") → error: not_empty(): the text is empty`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			empty := false
			switch v := args[0].(type) {
			case []any:
				empty = len(v) == 0
			case map[string]any:
				empty = len(v) == 0
			default:
				empty = value.TextOf(v) == ""
			}
			if empty {
				s.Fail("%s(): the %s is empty", s.Name, value.KindOf(args[0]))
			}
			return args[0]
		}},
}

func merge(f *lang.Frame, s *lang.Site, a, b map[string]any, lists string) map[string]any {
	f.ChargeObject(s.Offset, len(a)+len(b))
	merged := maps.Clone(a)
	if merged == nil {
		merged = map[string]any{}
	}
	for k, v := range b {
		was := a[k]
		switch v := v.(type) {
		case map[string]any:
			if was, ok := was.(map[string]any); ok {
				merged[k] = merge(f, s, was, v, lists)
				continue
			}
		case []any:
			if was, ok := was.([]any); ok && lists != "replace" {
				f.ChargeList(s.Offset, len(was)+len(v))
				both := slices.Concat(was, v)
				if lists == "union" {
					both = uniq(f, s, []any{both}).([]any)
				}
				merged[k] = both
				continue
			}
		}
		merged[k] = v
	}
	return merged
}

// fieldPaths are the paths of fields in arguments, which are texts or lists of texts.
func fieldPaths(s *lang.Site, args []any) [][]any {
	var paths [][]any
	for _, a := range args {
		if list, ok := a.([]any); ok {
			paths = append(paths, fieldPaths(s, list)...)
			continue
		}
		if value.KindOf(a) != value.Text {
			s.Fail("%s() needs paths as text, not %s", s.Name, s.Show(a))
		}
		keys := lang.PathOf(s, a).Keys()
		if slices.ContainsFunc(keys, func(k any) bool { return value.KindOf(k) != value.Text }) {
			s.FailWith("map(items, "+s.Name+"(#, …)) goes through a list",
				"%s() takes paths of fields, without indexes, not %s", s.Name, s.Show(a))
		}
		paths = append(paths, keys)
	}
	return paths
}

// fieldOf is a field of v. If v is a list, it ends the evaluation: its elements were meant.
func fieldOf(s *lang.Site, v any, key string) (any, bool) {
	if value.KindOf(v) == value.List {
		s.FailWith("map(items, "+s.Name+"(#, …)) goes through a list", "%s() met a list where it looks for %q",
			s.Name, value.Clip(key))
	}
	m, _ := v.(map[string]any)
	v, there := m[key]
	return v, there
}

// pick copies the value at a path of from into picked. The objects in picked are its own.
func pick(f *lang.Frame, s *lang.Site, picked map[string]any, from any, keys []any) {
	for i, k := range keys {
		v, there := fieldOf(s, from, k.(string))
		if !there {
			return
		}
		if i == len(keys)-1 {
			picked[k.(string)] = v
			return
		}
		if value.KindOf(v) != value.Object {
			return
		}
		inner, ok := picked[k.(string)].(map[string]any)
		f.ChargeObject(s.Offset, max(len(inner), 1))
		if inner = maps.Clone(inner); !ok { // it may be an object of the message that was picked whole before
			inner = map[string]any{}
		}
		picked[k.(string)] = inner
		picked, from = inner, v
	}
}

// without is v, of which the objects on the path are copies.
func without(f *lang.Frame, s *lang.Site, v any, keys []any) any {
	if len(keys) == 0 {
		return v
	}
	key := keys[0].(string)
	inner, there := fieldOf(s, v, key)
	if !there {
		return v
	}
	m := maps.Clone(v.(map[string]any))
	f.ChargeObject(s.Offset, len(m))
	if len(keys) == 1 {
		delete(m, key)
	} else {
		m[key] = without(f, s, inner, keys[1:])
	}
	return m
}

// separator is the second argument, or a dot.
func separator(s *lang.Site, args []any) string {
	if len(args) < 2 {
		return "."
	}
	if args[1] == "" {
		s.Fail("%s() needs a separator of at least one character", s.Name)
	}
	return args[1].(string)
}

func flattenKeys(f *lang.Frame, s *lang.Site, flat map[string]any, path, sep string, v any, depth int) {
	if depth > value.MaxDepth {
		s.Fail("%s(): the value is nested more than %d deep", s.Name, value.MaxDepth)
	}
	inner := func(key string, v any) {
		f.ChargeBytes(s.Offset, len(path)+len(sep)+len(key), 1)
		flattenKeys(f, s, flat, path+sep+key, sep, v, depth+1)
	}
	switch of := v.(type) {
	case map[string]any:
		for _, k := range value.SortedKeys(of) {
			inner(k, of[k])
		}
		if len(of) > 0 {
			return
		}
	case []any:
		for i, e := range of {
			inner(strconv.Itoa(i), e)
		}
		if len(of) > 0 {
			return
		}
	}
	if _, taken := flat[path]; taken {
		s.Fail("%s() makes the key %q of two paths", s.Name, value.Clip(path))
	}
	flat[path] = v
}

// branch is an object that unflatten_keys makes, which no message has.
type branch map[string]any

func unflattenKeys(f *lang.Frame, s *lang.Site, args []any) any {
	flat, sep := args[0].(map[string]any), separator(s, args)
	root := branch{}
	for _, path := range value.SortedKeys(flat) {
		at, parts := root, strings.Split(path, sep)
		f.Alloc(s.Offset, len(parts)*(doc.ObjectSize+lang.ElementSize))
		f.Step(s.Offset, len(parts))
		if len(parts) > value.MaxDepth {
			s.Fail("%s(): the key has more than %d parts", s.Name, value.MaxDepth)
		}
		for i, key := range parts {
			v, there := at[key]
			next, ok := v.(branch)
			if last := i == len(parts)-1; there && (last || !ok) {
				s.Fail("%s(): %q is at once a value and the beginning of another key", s.Name,
					value.Clip(strings.Join(parts[:i+1], sep)))
			} else if last {
				at[key] = flat[path]
				break
			}
			if !ok {
				next = branch{}
				at[key] = next
			}
			at = next
		}
	}
	return grown(root, true)
}

// grown is a branch as an object, or as the list that its keys are the indexes of.
func grown(b branch, root bool) any {
	isList := !root && len(b) > 0
	for i := 0; isList && i < len(b); i++ {
		_, isList = b[strconv.Itoa(i)]
	}
	of := func(v any) any {
		if inner, ok := v.(branch); ok {
			return grown(inner, false)
		}
		return v
	}
	if isList {
		list := make([]any, len(b))
		for i := range list {
			list[i] = of(b[strconv.Itoa(i)])
		}
		return list
	}
	m := make(map[string]any, len(b))
	for k, v := range b {
		m[k] = of(v)
	}
	return m
}

// diff appends what differs between two values at a path.
func diff(f *lang.Frame, s *lang.Site, found []any, at []any, a, b any) []any {
	if len(at) > value.MaxDepth {
		s.Fail("%s(): the values are nested more than %d deep", s.Name, value.MaxDepth)
	}
	note := func(change string, at []any, sides map[string]any) {
		path := value.PathText(at)
		sides["path"], sides["change"] = path, change
		f.ChargeObject(s.Offset, len(sides))
		f.ChargeBytes(s.Offset, len(path), 1)
		found = append(found, sides)
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Compact(slices.Sorted(slices.Values(slices.Concat(value.SortedKeys(x), value.SortedKeys(y)))))
		f.Step(s.Offset, len(keys)*4)
		for _, k := range keys {
			v, was := x[k]
			w, is := y[k]
			switch {
			case !was:
				note("added", append(at, k), map[string]any{"to": w})
			case !is:
				note("removed", append(at, k), map[string]any{"from": v})
			default:
				found = diff(f, s, found, append(at, k), v, w)
			}
		}
		return found
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		f.Step(s.Offset, len(x)+len(y))
		for i := range max(len(x), len(y)) {
			switch {
			case i >= len(x):
				note("added", append(at, i), map[string]any{"to": y[i]})
			case i >= len(y):
				note("removed", append(at, i), map[string]any{"from": x[i]})
			default:
				found = diff(f, s, found, append(at, i), x[i], y[i])
			}
		}
		return found
	}
	if !value.DeepEqual(a, b, 0) {
		note("changed", at, map[string]any{"from": a, "to": b})
	}
	return found
}
