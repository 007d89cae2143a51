package lists_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

type (
	list   = []any
	object = map[string]any
)

func TestObjects(t *testing.T) {
	exprtest.CheckOutcomes(t, exprtest.Outcomes{
		{`merge({a: {x: 1}, b: 1}, {a: {y: nil}, b: {z: 2}})`, object{"a": object{"x": 1, "y": nil}, "b": object{"z": 2}}, ""},
		{`merge({l: [1]}, {l: [1, 2]}, "append")`, object{"l": list{1, 1, 2}}, ""},
		{`merge({}, {})`, object{}, ""},
		{`merge({a: 1}, {a: 2}, "first")`, nil,
			`merge(): lists are merged by "replace", "append" or "union", not text "first"`},
		{`merge(user, missing)`, nil, "merge() needs object, not nothing (?? gives a missing field a default)"},
		{`let u = user; [merge(u, {name: "new"}).name, u.name]`, list{"new", "ann"}, ""},
		{`pick(this, "user.name", "user.tags", "missing.x", "status")`,
			object{"user": object{"name": "ann", "tags": list{"x", "y"}}, "status": 503}, ""},
		{`pick(this, ["status", "ok"])`, object{"status": 503, "ok": true}, ""},
		{`pick(user, "deep", "deep.er")`, object{"deep": object{"er": true}}, ""},
		{`pick(this, "name.x")`, object{}, ""},
		{`pick(this, "items[0].sku")`, nil, `pick() takes paths of fields, without indexes, not text "items[0].sku"` +
			" (map(items, pick(#, …)) goes through a list)"},
		{`without(this, "items.sku")`, nil, `without() met a list where it looks for "sku"` +
			" (map(items, without(#, …)) goes through a list)"},
		{`without({a: {b: 1, c: 2}, d: 3}, "a.b", "d", "x.y")`, object{"a": object{"c": 2}}, ""},
		{`without(user, 5)`, nil, "without() needs text or list, not number 5"},
		{`without(user, [5])`, nil, "without() needs paths as text, not number 5"},
		{`without(user, "a[")`, nil, `without(): text "a[" is not a path such as a.b[0]`},
		{`flatten_keys({a: {b: {}, c: []}, d: nil, "e.f": 1}, "/")`,
			object{"a/b": object{}, "a/c": list{}, "d": nil, "e.f": 1}, ""},
		{`flatten_keys({"a.b": 1, a: {b: 2}})`, nil, `flatten_keys() makes the key "a.b" of two paths`},
		{`flatten_keys({a: 1}, "")`, nil, "flatten_keys() needs a separator of at least one character"},
		{`unflatten_keys({"a": 1, "a.b": 2})`, nil,
			`unflatten_keys(): "a" is at once a value and the beginning of another key`},
		{`unflatten_keys({"0": 1, "l.0": 1, "l.2": 2})`, object{"0": 1, "l": object{"0": 1, "2": 2}}, ""},
		{`diff(1, 2)`, list{object{"path": "this", "change": "changed", "from": 1, "to": 2}}, ""},
		{`diff({a: 1, b: 1.0}, {b: 1})`, list{object{"path": "a", "change": "removed", "from": 1}}, ""},
		{`diff([1, [2]], [1])`, list{object{"path": "[1]", "change": "removed", "from": list{2}}}, ""},
		{`diff({"odd name": [1]}, {"odd name": {}})`,
			list{object{"path": `["odd name"]`, "change": "changed", "from": list{1}, "to": object{}}}, ""},
		{`zip([1], [2, 3])`, nil, "zip() needs lists of equal length, not 1 and 2 elements"},
		{`chunk([], 2)`, list{}, ""},
		{`chunk(list, 0)`, nil, "chunk() needs at least 1 element a list, not 0"},
		{`not_empty(list)`, list{3, 1, 2}, ""},
		{`not_empty({})`, nil, "not_empty(): the object is empty"},
		{`json_path(this, "$.items[*].qty")`, list{2, 5}, ""},
		{`json_path(this, "$.nope")`, list{}, ""},
		{`json_path(this, "items")`, nil, `json_path() needs a JSONPath, not text "items" (begin it with $: $.items[*].sku)`},
		{`json_path(this, "$.items[?")`, nil, ``},
		{`json_path(this, "$." + key)`, list{"Ann"}, ""},
		{`map_keys({a: 1, b: 2}, "x")`, nil, `map_keys() makes the key "x" of two keys`},
		{`map_keys({a: 1}, 5)`, nil, "map_keys() needs keys that are text, not number 5"},
		{`map_values(list, #)`, nil, "map_values() needs an object, not a list"},
		{`map_values(missing, #)`, nil,
			"map_values() needs an object, not nothing (write ?? {} for an object that may be missing)"},
		{`map_values(user, #path)`, nil, "#path only exists in walk()"},
		{`map(list, #key)`, nil, "#key only exists in walk(), map_values(), map_keys(), filter_values()"},
		{`walk([1, {a: [2]}], [#key, #index, #path])`, list{list{nil, 0, "[0]"}, object{"a": list{list{"a", 0, "[1].a[0]"}}}}, ""},
		{`walk("x", # + #path)`, "xthis", ""},
		{`walk({a: {}, b: []}, 1)`, object{"a": object{}, "b": list{}}, ""},
		{`walk(items, #key == "qty" ? walk([#], # * 10)[0] : #key)`, list{object{"sku": "sku", "qty": 20}, object{"sku": "sku", "qty": 50}}, ""},
		{`walk_keys([{a: {b: [{c: 1}]}}], upper(#) + "x")`, list{object{"Ax": object{"Bx": list{object{"Cx": 1}}}}}, ""},
		{`walk_keys(items, # == "sku" ? "id" : #)`, list{object{"id": "a", "qty": 2}, object{"id": "b", "qty": 5}}, ""},
		{`walk_keys(user, "x")`, nil, `walk_keys() makes the key "x" of two keys`},
		{`walk_keys(user, 5)`, nil, "walk_keys() needs keys that are text, not number 5"},
		{`walk_keys(5, upper(#))`, 5, ""},
		{`count_by(items, .qty > 2)`, object{"true": 1, "false": 1}, ""},
		{`uniq_by(list, # % 2)`, list{3, 2}, ""},
		{`items | sort_by(.qty, "desc") | map(.sku)`, list{"b", "a"}, ""},
	})
}

// A redaction does not change other values, however deeply they are nested.
func TestWalkGoesAsDeepAsDocumentsDo(t *testing.T) {
	for depth, want := range map[int]string{510: "", 600: "nested"} {
		m := exprtest.NewMessage(`{"a": ` + strings.Repeat("[", depth) + `"x"` + strings.Repeat("]", depth) + `}`)
		_, err := exprtest.EvalBoth(t, `len(to_json(walk(a, upper(#))))`, m)
		if (err == nil) != (want == "") || !strings.Contains(exprtest.ErrorText(err), want) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}

func TestObjectsWithinTheBudget(t *testing.T) {
	exprtest.Unraced(t)
	var items strings.Builder
	for i := range 18_000 {
		fmt.Fprintf(&items, `,{"n":%d}`, i)
	}
	m := exprtest.NewMessage(`{"items": [` + items.String()[1:] + `], "object": {"a": {"b": 1}}}`)
	limits := lang.Limits{Memory: 8 << 20, Steps: 1_250_000}
	for _, src := range []string{
		`json_path(this, "$..*..*")`,
		`json_path(items, "$[?count($[*]) > @.n]")`,
		`reduce(1..40, merge({a: #acc}, {b: #acc}), {})`,
		`flatten_keys({a: reduce(1..40, [#acc, #acc], 1)})`,
		`walk(reduce(1..40, [#acc, #acc], 1), #)`,
		`walk(map(1..100, items), #)`,
		`walk(items, items)`,
		`diff(reduce(1..30, [#acc, #acc], 1), reduce(1..30, [#acc, #acc], 2))`,
		`map(1..1000, zip(items, items, items))`,
		`map(1..1000, percentile(map(items, .n), 50))`,
		`map(1..100000, map_values(object, #))`,
		`map(1..1000, chunk(items, 1))`,
		`map(1..1000, enumerate(items))`,
	} {
		got := exprtest.Spend(t, src, limits, m)
		if got.Err == nil || !strings.Contains(got.Err.Error(), "engine.limits.expression") {
			t.Errorf("%s: got %v, want an end by the budget", src, got.Err)
		}
		if got.Allocated > 48<<20 || got.Took > exprtest.Patience {
			t.Errorf("%s: allocated %d MiB in %v", src, got.Allocated>>20, got.Took)
		}
	}
}

// anyValue returns a random value of a document. Its keys have neither dots nor brackets, and are not indexes.
func anyValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Int().AsAny(), rapid.Bool().AsAny(), rapid.StringMatching(`[a-z]{0,3}`).AsAny())
	if depth == 0 {
		return leaf
	}
	return rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return leaf.Draw(t, "leaf")
		case 1:
			return rapid.SliceOfN(anyValue(depth-1), 0, 3).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.StringMatching(`[a-z]{1,2}`), anyValue(depth-1), 0, 3).Draw(t, "object")
	})
}

func TestObjectsAsProperties(t *testing.T) {
	call := func(t *rapid.T, name string, args ...any) any {
		v, err := lang.CallFunction(name, args...)
		if err != nil {
			t.Fatalf("%s(%v): %v", name, args, err)
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,2}`), anyValue(3), 0, 4).Draw(t, "a")
		b := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,2}`), anyValue(3), 0, 4).Draw(t, "b")
		if got := call(t, "unflatten_keys", call(t, "flatten_keys", a)); !reflect.DeepEqual(got, any(a)) {
			t.Fatalf("flattened and back: %v became %v", a, got)
		}
		if got := call(t, "diff", a, a).([]any); len(got) != 0 {
			t.Fatalf("a value differs from itself: %v", got)
		}
		// A diff of a and b is empty if and only if they are equal. It names values that exist.
		changes := call(t, "diff", a, b).([]any)
		if (len(changes) == 0) != reflect.DeepEqual(a, b) {
			t.Fatalf("%v and %v differ by %v", a, b, changes)
		}
		for _, c := range changes {
			c := c.(map[string]any)
			for side, of := range map[string]any{"from": a, "to": b} {
				if want, given := c[side]; given {
					var v any = of
					text, _ := c["path"].(string)
					path, err := doc.ParsePath(strings.TrimPrefix(text, "this"))
					if err != nil && text != "this" {
						t.Fatal(err)
					}
					for _, k := range path.Keys() {
						v = value.Member(v, k)
					}
					if !value.DeepEqual(v, want, 0) {
						t.Fatalf("%s of %v is %v", side, c, v)
					}
				}
			}
		}
		// Merging is idempotent, and the result has all values of the second object.
		once := call(t, "merge", a, b)
		if twice := call(t, "merge", once, b); !reflect.DeepEqual(once, twice) {
			t.Fatalf("merged once %v, twice %v", once, twice)
		}
		keys := value.SortedKeys(a)
		texts := make([]any, len(keys))
		for i, k := range keys {
			texts[i] = k
		}
		if len(keys) > 0 {
			cut := rapid.IntRange(0, len(keys)).Draw(t, "cut")
			parts := call(t, "merge", call(t, "pick", a, texts[:cut]), call(t, "without", a, texts[:cut]))
			if !reflect.DeepEqual(parts, any(a)) {
				t.Fatalf("picked and the rest of %v are %v", a, parts)
			}
		}
		numbers := rapid.SliceOfN(rapid.IntRange(-100, 100), 1, 20).Draw(t, "numbers")
		list := make([]any, len(numbers))
		for i, n := range numbers {
			list[i] = n
		}
		slices.Sort(numbers)
		if got := call(t, "percentile", list, 0); got != float64(numbers[0]) {
			t.Fatalf("percentile 0 of %v is %v", numbers, got)
		}
		want, ok := value.AsFloat(call(t, "median", slices.Clone(list)))
		if got := call(t, "percentile", list, 50); !ok || math.Abs(got.(float64)-want) > 1e-9 {
			t.Fatalf("percentile 50 of %v is %v, the median %v", numbers, got, want)
		}
	})
}
