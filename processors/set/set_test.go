package set_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/set"
)

func TestSet(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "a new field goes last", Step: `{"set": {"c": "a + b"}}`, In: []string{`{"a":1,"b":2}`},
			Want: []string{`{"a":1,"b":2,"c":3}`}},
		{Name: "a replaced field keeps its place", Step: `{"set": {"a": "a * 2"}}`, In: []string{`{"a":1,"b":2}`},
			Want: []string{`{"a":2,"b":2}`}},
		{Name: "later lines see earlier ones", Step: `{"set": {"x": "1", "y": "x + 1"}}`, In: []string{`{}`},
			Want: []string{`{"x":1,"y":2}`}},
		{Name: "missing parents become objects", Step: `{"set": {"a.b.c": "1"}}`, In: []string{`{}`},
			Want: []string{`{"a":{"b":{"c":1}}}`}},
		{Name: "nil writes null", Step: `{"set": {"a": "nil"}}`, In: []string{`{"a":1}`}, Want: []string{`{"a":null}`}},
		{Name: "this is the document",
			Step: `{"set": {"this.total": "a * 2", "this.l[1]": "total", "this[\"b c\"]": "1"}}`,
			In:   []string{`{"a":1,"l":[0,0]}`}, Want: []string{`{"a":1,"l":[0,2],"total":2,"b c":1}`}},
		{Name: "a field called this", Step: `{"set": {"this.this": "1", "this[\"this\"]": "this.this + 1"}}`,
			In: []string{`{"a":1}`}, Want: []string{`{"a":1,"this":2}`}},
		{Name: "the whole document", Step: `{"set": {"this": "l[0]", "b": "a + 1"}}`, In: []string{`{"l":[{"a":1.0}]}`},
			Want: []string{`{"a":1.0,"b":2}`}},
		{Name: "a bare path copies the text as it stands", Step: `{"set": {"b": "this.a"}}`,
			In:   []string{`{"a":{ "n": 1.50, "big": 123456789012345678901234567890 }}`},
			Want: []string{`{"a":{ "n": 1.50, "big": 123456789012345678901234567890 },"b":{ "n": 1.50, "big": 123456789012345678901234567890 }}`}},
		{Name: "a bare path that is missing writes null", Step: `{"set": {"b": "a.x"}}`, In: []string{`{"a":{}}`},
			Want: []string{`{"a":{},"b":null}`}},
		{Name: "what is not touched keeps its bytes", Step: `{"set": {"a": "2"}}`,
			In:   []string{`{ "z" : 1.0e5 , "a":1, "é":"\u00e9" }`},
			Want: []string{`{ "z" : 1.0e5 , "a":2, "é":"\u00e9" }`}},
		{Name: "a scalar parent fails the message", Step: `{"set": {"a.b": "1"}}`, In: []string{`{"a":1}`},
			Want: []string{"failed permanent: a"}},
		{Name: "an index past the end fails the message", Step: `{"set": {"a[3]": "1"}}`, In: []string{`{"a":[1]}`},
			Want: []string{"failed permanent: a"}},
		{Name: "a wrong type fails its message alone", Step: `{"set": {"b": "a + 1"}}`,
			In: []string{`{"a":"x"}`, `{"a":1}`}, Want: []string{`{"a":1,"b":2}`, "failed expression: a + 1"}},
		{Name: "a payload that is no document fails", Step: `{"set": {"b": "1"}}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestSetRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no line", Step: `{"set": {}}`, Want: "needs at least one line"},
		{Name: "nothing", Step: `{"set": null}`, Want: "set"},
		{Name: "null for nil", Step: `{"set": {"a": null}}`, Want: "YAML reads null as no value (write nil)"},
		{Name: "an empty path", Step: `{"set": {"": "1"}}`, Want: "the path is empty"},
		{Name: "a path that is none", Step: `{"set": {"a[": "1"}}`, Want: "a["},
		{Name: "an unknown function", Step: `{"set": {"a": "nosuch(b)"}}`, Want: "nosuch"},
	})
}

func TestSetConforms(t *testing.T) {
	steptest.Conforms(t, `{"set": {"b": "a + 1"}}`, `{"a":1}`, `{"a":2}`)
}
