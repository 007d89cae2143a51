package rename_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/rename"
)

func TestRename(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "a field keeps its place and its text", Step: `{"rename": {"msg": "message"}}`,
			In: []string{`{"msg":1.0,"x":2}`}, Want: []string{`{"message":1.0,"x":2}`}},
		{Name: "another parent is made", Step: `{"rename": {"id": "customer.id"}}`, In: []string{`{"id":7,"x":2}`},
			Want: []string{`{"x":2,"customer":{"id":7}}`}},
		{Name: "pairs are carried out in order", Step: `{"rename": {"a": "b", "b": "c"}}`, In: []string{`{"a":1}`},
			Want: []string{`{"c":1}`}},
		{Name: "this is the document", Step: `{"rename": {"this.a": "this.b.c"}}`, In: []string{`{"a":1,"this":2}`},
			Want: []string{`{"this":2,"b":{"c":1}}`}},
		{Name: "what is not there is no error", Step: `{"rename": {"x": "y"}}`, In: []string{`{"a":1}`},
			Want: []string{`{"a":1}`}},
		{Name: "a document without fields fails", Step: `{"rename": {"x": "y"}}`, In: []string{`[{"x":1}]`},
			Want: []string{"failed permanent: x: the document is an array, not an object"}},
		{Name: "a payload that is no document fails", Step: `{"rename": {"x": "y"}}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestRenameRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no pair", Step: `{"rename": {}}`, Want: "needs at least one line"},
		{Name: "an empty target", Step: `{"rename": {"a": ""}}`, Want: "the path is empty"},
		{Name: "the whole document", Step: `{"rename": {"this": "a"}}`,
			Want: "this is the whole document, but only a part of it is allowed here"},
		{Name: "to the whole document", Step: `{"rename": {"a": "this"}}`,
			Want: "this is the whole document, but only a part of it is allowed here"},
		{Name: "a target that is no path", Step: `{"rename": {"a": "b["}}`, Want: "b["},
	})
}

func TestRenameConforms(t *testing.T) {
	steptest.Conforms(t, `{"rename": {"a": "b"}}`, `{"a":1}`, `{"c":2}`)
}
