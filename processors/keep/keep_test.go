package keep_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/keep"
)

func TestKeep(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "what is not named goes", Step: `{"keep": ["b.d", "a"]}`,
			In: []string{`{"a":1.0,"b":{"c":1,"d":2},"e":3}`}, Want: []string{`{"a":1.0,"b":{"d":2}}`}},
		{Name: "this is the document", Step: `{"keep": ["this.id", "this[\"b c\"]"]}`,
			In: []string{`{"id":1,"this":{"id":2},"b c":3}`}, Want: []string{`{"id":1,"b c":3}`}},
		{Name: "a field called this", Step: `{"keep": ["this.this.id"]}`, In: []string{`{"id":1,"this":{"id":2}}`},
			Want: []string{`{"this":{"id":2}}`}},
		{Name: "nothing to keep leaves an empty object", Step: `{"keep": ["x"]}`, In: []string{`{"a":1}`},
			Want: []string{`{}`}},
		{Name: "a document without fields fails", Step: `{"keep": ["id"]}`, In: []string{`5`, `[{"id":1}]`, `"x"`},
			Want: []string{"failed permanent: id: the document is a number, not an object",
				"failed permanent: id: the document is an array, not an object",
				"failed permanent: id: the document is a string, not an object"}},
		{Name: "an element of a list", Step: `{"keep": ["[1]"]}`, In: []string{`[1,2]`}, Want: []string{`[2]`}},
		{Name: "an element of what has none", Step: `{"keep": ["[1]"]}`, In: []string{`{"a":1}`},
			Want: []string{"failed permanent: [1]: the document is an object, not an array"}},
		{Name: "a payload that is no document fails", Step: `{"keep": ["x"]}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestKeepRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no path", Step: `{"keep": []}`, Want: "needs at least one path"},
		{Name: "the whole document", Step: `{"keep": "this"}`,
			Want: "this is the whole document, but only a part of it is allowed here"},
	})
}

func TestKeepConforms(t *testing.T) {
	steptest.Conforms(t, `{"keep": ["a"]}`, `{"a":1,"b":2}`, `{"b":2}`)
}
