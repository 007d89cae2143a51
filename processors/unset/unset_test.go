package unset_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/unset"
)

func TestUnset(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "fields go, the rest stays as it is", Step: `{"unset": ["a", "b.c"]}`,
			In: []string{`{"a":1, "b":{"c":1,"d":2.0}}`}, Want: []string{`{"b":{"d":2.0}}`}},
		{Name: "one path needs no list", Step: `{"unset": "a"}`, In: []string{`{"a":1}`}, Want: []string{`{}`}},
		{Name: "this is the document", Step: `{"unset": ["this.a", "this[\"b c\"].d", "this.this", "this.l[0]"]}`,
			In: []string{`{"a":1,"b c":{"d":1,"e":2},"this":3,"l":[1,2]}`}, Want: []string{`{"b c":{"e":2},"l":[2]}`}},
		{Name: "what is not there is no error", Step: `{"unset": ["x.y.z"]}`, In: []string{`{"a":1}`},
			Want: []string{`{"a":1}`}},
		{Name: "what should go may be within a list", Step: `{"unset": "card"}`, In: []string{`[{"card":1}]`, `5`},
			Want: []string{"failed permanent: card: the document is an array, not an object",
				"failed permanent: card: the document is a number, not an object"}},
		{Name: "a payload that is no document fails", Step: `{"unset": ["x"]}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestUnsetRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no path", Step: `{"unset": []}`, Want: "needs at least one path"},
		{Name: "an empty path", Step: `{"unset": ["a", ""]}`, Want: "the path is empty"},
		{Name: "the whole document", Step: `{"unset": ["a", "this"]}`,
			Want: "this is the whole document, but only a part of it is allowed here"},
		{Name: "a mapping", Step: `{"unset": {"a": 1}}`,
			Want: "expected a path or list of paths, got a mapping (write [user.name, items])"},
		{Name: "an odd name", Step: `{"unset": "a b"}`,
			Want: `"a b" is not a valid path (write '["a b"]' for a key of that name, or a path such as user.name)`},
		{Name: "several paths in one text", Step: `{"unset": "a, b.c"}`,
			Want: `"a, b.c" is not a valid path (write a list: [a, b.c])`},
		{Name: "a path that is none", Step: `{"unset": ["a..b"]}`, Want: "a..b"},
	})
}

func TestUnsetConforms(t *testing.T) { steptest.Conforms(t, `{"unset": ["a"]}`, `{"a":1}`, `{"b":2}`) }
