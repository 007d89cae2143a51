package each_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/encode"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/split"
)

func TestEach(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "steps see each element as a document",
			Step: `{"each": {"in": "this.items", "do": [{"set": {"t": "q * p"}}]}}`,
			In:   []string{`{"id":1,"items":[{"q":2,"p":3},{"q":1,"p":1.5}]}`},
			Want: []string{`{"id":1,"items":[{"q":2,"p":3,"t":6},{"q":1,"p":1.5,"t":1.5}]}`}},
		{Name: "a dropped element is gone", Step: `{"each": {"in": "this.items", "do": [{"filter": "q > 0"}]}}`,
			In: []string{`{"items":[{"q":0},{"q":1}]}`}, Want: []string{`{"items":[{"q":1}]}`}},
		{Name: "into may begin with this",
			Step: `{"each": {"in": "items ?? []", "into": "this.out", "do": [{"set": {"this.t": "1"}}]}}`,
			In:   []string{`{"items":[{}]}`}, Want: []string{`{"items":[{}],"out":[{"t":1}]}`}},
		{Name: "the results become the document",
			Step: `{"each": {"in": "this.items", "into": "this", "do": [{"filter": "q > 0"}]}}`,
			In:   []string{`{"items":[{"q":0},{"q":1}]}`}, Want: []string{`[{"q":1}]`}},
		{Name: "a split element is several", Step: `{"each": {"in": "this.items", "do": [{"split": {}}]}}`,
			In: []string{`{"items":[[1,2],[],[3]]}`}, Want: []string{`{"items":[1,2,3]}`}},
		{Name: "an empty array stays one", Step: `{"each": {"in": "this.items", "do": [{"filter": "q > 0"}]}}`,
			In: []string{`{"items":[]}`}, Want: []string{`{"items":[]}`}},
		{Name: "the results of an expression need a place",
			Step: `{"each": {"in": "filter(items, .q > 0)", "into": "some", "do": [{"set": {"x": "1"}}]}}`,
			In:   []string{`{"items":[{"q":0},{"q":1}]}`},
			Want: []string{`{"items":[{"q":0},{"q":1}],"some":[{"q":1,"x":1}]}`}},

		{Name: "a failed element fails the message and leaves it as it was",
			Step: `{"each": {"in": "this.items", "do": [{"set": {"t": "q + 1"}}]}}`,
			In:   []string{`{"items":[{"q":1},{"q":"x"}]}`, `{"items":[{"q":1}]}`},
			Want: []string{`{"items":[{"q":1,"t":2}]}`, "failed expression: element 1: "}},
		{Name: "a result that is no document fails the message",
			Step: `{"each": {"in": "this.items", "do": [{"encode": "base64"}]}}`, In: []string{`{"items":[{"q":1}]}`},
			Want: []string{"failed decode: element 0 is not a document after the steps"}},
		{Name: "a missing array fails the message", Step: `{"each": {"in": "this.items", "do": [{"filter": "q > 0"}]}}`,
			In: []string{`{}`}, Want: []string{"failed expression: this.items is missing, not an array"}},
		{Name: "text that looks like an array is none",
			Step: `{"each": {"in": "upper(t)", "into": "x", "do": [{"filter": "q > 0"}]}}`, In: []string{`{"t":"[1"}`},
			Want: []string{"failed expression: upper(t) is a string, not an array"}},
		{Name: "a payload that is no document fails",
			Step: `{"each": {"in": "this.items", "do": [{"filter": "q > 0"}]}}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestALongArrayKeepsItsOrder(t *testing.T) {
	var in, want []string
	for i := range 1000 {
		in = append(in, fmt.Sprintf(`{"n":%d}`, i))
		if i%3 > 0 {
			want = append(want, fmt.Sprintf(`{"n":%d,"m":%d}`, i, i+1))
		}
	}
	steptest.Run(t, []steptest.Case{{
		Name: "in runs",
		Step: `{"each": {"in": "this.items", "do": [{"filter": "n % 3 > 0"}, {"set": {"m": "n + 1"}}]}}`,
		In:   []string{`{"items":[` + strings.Join(in, ",") + `]}`},
		Want: []string{`{"items":[` + strings.Join(want, ",") + `]}`},
	}, {
		Name: "the number of an element that failed counts all",
		Step: `{"each": {"in": "this.items", "do": [{"set": {"m": "n + 1"}}]}}`,
		In:   []string{`{"items":[` + strings.Join(in, ",") + `,{"n":"x"}]}`},
		Want: []string{"failed expression: element 1000: "},
	}})
}

func TestEachRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no steps", Step: `{"each": {"in": "this.items", "do": []}}`, Want: "do"},
		{Name: "no array", Step: `{"each": {"do": [{"filter": "q > 0"}]}}`, Want: "in"},
		{Name: "an expression without a place for the results",
			Step: `{"each": {"in": "filter(items, .q > 0)", "do": [{"filter": "q > 0"}]}}`,
			Want: "give a path as `into`"},
		{Name: "a step that is none", Step: `{"each": {"in": "this.items", "do": [{"fliter": "q > 0"}]}}`,
			Want: "filter"},
	})
}

func TestEachConforms(t *testing.T) {
	steptest.Conforms(t, `{"each": {"in": "this.items", "do": [{"set": {"x": "1"}}]}}`, `{"items":[{}]}`,
		`{"items":[]}`)
}
