package filter_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/filter"
)

func TestFilter(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "messages for which the condition holds go on", Step: `{"filter": "status >= 500"}`,
			In:   []string{`{"status":503}`, `{"status":200}`, `{"status": 500}`},
			Want: []string{`{"status":503}`, `{"status": 500}`, "dropped"}},
		{Name: "a wrong type fails its message alone", Step: `{"filter": "status >= 500"}`,
			In:   []string{`{"status":"503"}`, `{"status":503}`},
			Want: []string{`{"status":503}`, "failed expression: status"}},
		{Name: "a missing field can be compared with nil", Step: `{"filter": "user != nil"}`,
			In: []string{`{}`, `{"user":1}`}, Want: []string{`{"user":1}`, "dropped"}},
		{Name: "a missing field has no order", Step: `{"filter": "status >= 500"}`, In: []string{`{}`},
			Want: []string{"failed expression: cannot compare nothing"}},
		{Name: "a payload that is no document fails", Step: `{"filter": "status >= 500"}`, In: []string{`{"status":`},
			Want: []string{"failed decode: "}},
		{Name: "the payload itself needs no document", Step: `{"filter": "size() > 3"}`, In: []string{`plain`, `x`},
			Want: []string{"plain", "dropped"}},
	})
}

func TestFilterRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no condition", Step: `{"filter": null}`, Want: "filter"},
		{Name: "a function that does not exist", Step: `{"filter": "upcase(name) == 1"}`, Want: "upcase"},
		{Name: "half an expression", Step: `{"filter": "status >="}`, Want: "filter"},
	})
}

func TestFilterConforms(t *testing.T) {
	steptest.Conforms(t, `{"filter": "n > 1"}`, `{"n":1}`, `{"n":2}`)
}
