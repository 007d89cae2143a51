package mapstep_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/map"
)

func TestMap(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "an expression is the new document", Step: `{"map": "{id: a + 1}"}`, In: []string{`{"a":1}`},
			Want: []string{`{"id":2}`}},
		{Name: "a bare path keeps its text", Step: `{"map": "this.a"}`, In: []string{`{"a":{ "n": 1.50 }}`},
			Want: []string{`{ "n": 1.50 }`}},
		{Name: "a bare path that is missing is null", Step: `{"map": "this.x"}`, In: []string{`{"a":1}`},
			Want: []string{`null`}},
		{Name: "lines make an object, in their order, of the old document",
			Step: `{"map": {"b": "this.a", "c.d": "a + 1", "a": "this.c"}}`, In: []string{`{"a":1.0,"c":"old"}`},
			Want: []string{`{"b":1.0,"c":{"d":2},"a":"old"}`}},
		{Name: "this in a line is the new document", Step: `{"map": {"this.b": "this.a", "this.c": "this.b"}}`,
			In: []string{`{"a":1}`}, Want: []string{`{"b":1,"c":null}`}},
		{Name: "an error fails the message", Step: `{"map": {"b": "a + 1"}}`, In: []string{`{"a":"x"}`},
			Want: []string{"failed expression: a + 1"}},
		{Name: "a document without fields makes no row of nothing", Step: `{"map": {"b": "this.a", "n": 1}}`,
			In: []string{`5`, `[{"a":1}]`}, Want: []string{
				"failed permanent: a is not a field: the document is a number, not an object (split a list first, or guard with `when`)",
				"failed permanent: a is not a field: the document is an array, not an object"}},
		{Name: "nor does an expression", Step: `{"map": "{b: a ?? 0}"}`, In: []string{`"x"`}, Want: []string{
			"failed permanent: a is not a field: the document is a string, not an object"}},
		{Name: "nor a bare path", Step: `{"map": "this.a.b"}`, In: []string{`null`}, Want: []string{
			"failed permanent: a is not a field: the document is null, not an object"}},
		{Name: "a list as a whole", Step: `{"map": {"all": "this", "first": "this[0].a", "n": "len(this)"}}`,
			In: []string{`[{"a":1}]`}, Want: []string{`{"all":[{"a":1}],"first":1,"n":1}`}},
		{Name: "a payload that is no document fails", Step: `{"map": "this.a"}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
		{Name: "the payload as text needs no document", Step: `{"map": {"line": "raw()"}}`,
			In: []string{`plain "text"`}, Want: []string{`{"line":"plain \"text\""}`}},
	})
}

func TestMapRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "nothing", Step: `{"map": null}`, Want: "map"},
		{Name: "no line", Step: `{"map": {}}`, Want: "needs at least one line"},
		{Name: "an unknown function", Step: `{"map": "nosuch(b)"}`, Want: "nosuch"},
	})
}

func TestMapConforms(t *testing.T) {
	steptest.Conforms(t, `{"map": {"b": "this.a"}}`, `{"a":1}`, `{"c":2}`)
}
