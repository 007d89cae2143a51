package state_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/parallel"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/state"
	_ "github.com/flowd-io/flowd/processors/switch"
	_ "github.com/flowd-io/flowd/processors/while"
)

// count is a step that counts the messages with each k.
const count = `{"state": {"key": "k", "set": {"n": "(state(\"n\") ?? 0) + 1"}, "into": "n"}}`

func TestMessagesOfAKeyLeaveValuesToEachOther(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "a count for each key", Step: count, In: []string{`{"k":1}`, `{"k":"1"}`, `{"k":1.0}`, `{"k":[1]}`, `{"k":1}`},
			Want: []string{`{"k":1,"n":{"n":1}}`, `{"k":"1","n":{"n":1}}`, `{"k":1.0,"n":{"n":2}}`, `{"k":[1],"n":{"n":1}}`,
				`{"k":1,"n":{"n":3}}`}},
		{Name: "lines see those above", Step: `{"state": {"key": "k", "into": "s", "set": {"sum": "(state(\"sum\") ?? 0) + v",
			"n": "(state(\"n\") ?? 0) + 1", "mean": "state(\"sum\") / state(\"n\")"}}}`,
			In:   []string{`{"k":1,"v":2}`, `{"k":1,"v":4}`},
			Want: []string{`{"k":1,"v":2,"s":{"sum":2,"n":1,"mean":2}}`, `{"k":1,"v":4,"s":{"sum":6,"n":2,"mean":3}}`}},
		{Name: "any value", Step: `{"state": {"key": "k", "into": "was", "set": {"before": "state(\"last\")", "last": "v"}}}`,
			In: []string{`{"k":1,"v":{"a":[1,"x",null]}}`, `{"k":1,"v":9007199254740993}`, `{"k":1,"v":1e2}`, `{"k":1,"v":""}`},
			Want: []string{`{"k":1,"v":{"a":[1,"x",null]},"was":{"last":{"a":[1,"x",null]}}}`,
				`{"k":1,"v":9007199254740993,"was":{"last":9007199254740993,"before":{"a":[1,"x",null]}}}`,
				`{"k":1,"v":1e2,"was":{"last":100,"before":9007199254740993}}`, `{"k":1,"v":"","was":{"last":"","before":100}}`}},
		{Name: "nil removes a name", Step: `{"state": {"key": "k", "into": "s", "set": {"a": "v", "b": "state(\"b\") ?? 1"}}}`,
			In:   []string{`{"k":1,"v":5}`, `{"k":1}`, `{"k":1,"v":6}`},
			Want: []string{`{"k":1,"v":5,"s":{"a":5,"b":1}}`, `{"k":1,"s":{"b":1}}`, `{"k":1,"v":6,"s":{"b":1,"a":6}}`}},
		{Name: "no names are no state", Step: `{"state": {"key": "k", "into": "s", "set": {"a": "v"}}}`,
			In: []string{`{"k":1,"v":5}`, `{"k":1}`}, Want: []string{`{"k":1,"v":5,"s":{"a":5}}`, `{"k":1,"s":{}}`}},
		{Name: "a message that fails leaves nothing", Step: `{"state": {"key": "k", "into": "s", "set": {"n": "(state(\"n\") ?? 0) + 1",
			"x": "v + 1"}}}`, In: []string{`{"k":1,"v":1}`, `{"k":1,"v":"x"}`, `{"k":1,"v":3}`},
			Want: []string{`{"k":1,"v":1,"s":{"n":1,"x":2}}`, `{"k":1,"v":3,"s":{"n":2,"x":4}}`, `failed expression: cannot add`}},
		{Name: "no key", Step: count, In: []string{`{}`, `{"k":null}`},
			Want: []string{`failed expression: the key k is nil`, `failed expression: guard the step with`}},
		{Name: "no document", Step: count, In: []string{`nope`}, Want: []string{`failed decode: `}},
		{Name: "the field can't be there", Step: `{"state": {"key": "k", "set": {"n": "(state(\"n\") ?? 0) + 1"}, "into": "k.n"}}`,
			In: []string{`{"k":1}`}, Want: []string{`failed permanent: `}},
		{Name: "too much", Step: `{"state": {"key": "1", "set": {"text": "repeat(\"x\", n)"}}}`,
			In: []string{`{"n":1048570}`, `{"n":1048571}`}, Want: []string{`{"n":1048570}`,
				`failed too_large: the state of this key would take 1048577 bytes, but may take 1048576`}},
	})
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no key", Step: `{"state": {"set": {"n": "1"}}}`, Want: "required"},
		{Name: "no values", Step: `{"state": {"key": "k"}}`, Want: "required"},
		{Name: "an empty set", Step: `{"state": {"key": "k", "set": {}}}`, Want: "needs at least one line"},
		{Name: "two limits", Step: `{"state": {"key": "k", "set": {"n": "1"}, "cache": "c", "max_keys": 5}}`,
			Want: "set it in the cache"},
		{Name: "two sizes", Step: `{"state": {"key": "k", "set": {"n": "1"}, "cache": "c", "max_bytes": "5MiB"}}`,
			Want: "set it in the cache"},
		{Name: "a word of a peer", Step: `{"state": {"by": "k", "set": {"n": "1"}}}`, Want: "write `key`"},
		{Name: "no batch", Step: `{"state": {"key": "k", "set": {"n": "batch_size()"}}}`, Want: "only where there is a batch"},
		{Name: "waiting inside another step", Step: `{"each": {"in": "list", "do": [{"state": {"key": "this", "set": {"n": "1"},
			"wait": true}}]}}`, Want: "messages can't wait inside another step"},
	})
}

func TestStateConforms(t *testing.T) {
	steptest.Conforms(t, count, `{"k":1}`, `{"k":2}`)
}

func TestLaterStepsSeeTheState(t *testing.T) {
	n := `{"set": {"n": "state(\"n\")"}}`
	bare := `{"state": {"key": "k", "set": {"n": "(state(\"n\") ?? 0) + 1"}}}`
	tests := []struct {
		name  string
		steps string
		in    []string
		want  []string
	}{
		{"a later step", `[` + bare + `, ` + n + `]`, []string{`{"k":1}`, `{"k":1}`}, []string{`{"k":1,"n":1}`, `{"k":1,"n":2}`}},
		{"an earlier one does not", `[` + n + `, ` + bare + `]`, []string{`{"k":1}`, `{"k":1}`},
			[]string{`{"k":1,"n":null}`, `{"k":1,"n":null}`}},
		{"one that was skipped", `[{"state": {"key": "k", "set": {"n": "1"}}, "when": "k == 2"}, ` + n + `]`,
			[]string{`{"k":1}`, `{"k":2}`}, []string{`{"k":1,"n":null}`, `{"k":2,"n":1}`}},
		{"one that failed", `[{"state": {"key": "k", "set": {"n": "1", "m": "k + 1"}}, "on_error": "continue"}, ` + n + `]`,
			[]string{`{"k":"x"}`}, []string{`{"k":"x","n":null}`}},
		{"the last one counts", `[` + bare + `, {"state": {"key": "l", "set": {"n": "\"other\""}}}, ` + n + `]`,
			[]string{`{"k":1,"l":1}`}, []string{`{"k":1,"l":1,"n":"other"}`}},
		{"each key has its own", `[` + bare + `, {"state": {"key": "k + 0", "set": {"n": "(state(\"n\") ?? 10) + 1"}}}, ` + n + `]`,
			[]string{`{"k":1}`, `{"k":1}`}, []string{`{"k":1,"n":11}`, `{"k":1,"n":12}`}},
		{"those of others are seen", `[` + bare + `, {"state": {"key": "k", "set": {"twice": "state(\"n\") * 2"}}},
			{"set": {"twice": "state(\"twice\")"}}]`, []string{`{"k":1}`}, []string{`{"k":1,"twice":2}`}},
		{"parts have it", `[` + bare + `, {"split": "list"}, {"map": "state(\"n\") + this"}]`, []string{`{"k":1,"list":[10,20]}`},
			[]string{"11", "21"}},
		{"parts count each", `[{"split": "list"}, {"state": {"key": "1", "set": {"n": "(state(\"n\") ?? 0) + 1"}}}, {"map": "state(\"n\")"}]`,
			[]string{`{"list":[10,20]}`}, []string{"1", "2"}},
		{"in a case", `[{"switch": [{"when": "k == 1", "do": [` + bare + `]}, {"do": [{"state": {"key": "-k", "set": {"n": "-1"}}}]}]}, ` + n +
			`]`,
			[]string{`{"k":1}`, `{"k":2}`, `{"k":1}`}, []string{`{"k":1,"n":1}`, `{"k":2,"n":-1}`, `{"k":1,"n":2}`}},
		{"elements", `[` + bare + `, {"each": {"in": "list", "do": [{"map": "[this, state(\"n\")]"}]}}]`, []string{`{"k":1,"list":[7]}`},
			[]string{`{"k":1,"list":[[7,1]]}`}},
		{"elements count each", `[{"each": {"in": "list", "do": [{"state": {"key": "this", "set": {"n": "(state(\"n\") ?? 0) + 1"}}},
			{"map": "state(\"n\")"}]}}]`, []string{`{"list":[7,8,7]}`}, []string{`{"list":[1,1,2]}`}},
		{"branches", `[{"parallel": {"a": [` + bare + `], "b": [{"state": {"key": "k", "set": {"m": "5"}}}]}}, ` + n +
			`, {"set": {"m": "state(\"m\")"}}]`,
			[]string{`{"k":1}`, `{"k":1}`}, []string{`{"k":1,"n":1,"m":5}`, `{"k":1,"n":2,"m":5}`}},
		{"each turn", `[{"while": {"when": "(state(\"n\") ?? 0) < 3", "do": [` + bare + `, {"set": {"x": "state(\"n\")"}}], "max": 5}}, ` + n +
			`]`,
			[]string{`{"k":1}`}, []string{`{"k":1,"x":3,"n":3}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failures := steptest.Pipeline{Steps: tt.steps, In: tt.in}.Run(t)
			want(t, "delivered", got, tt.want)
			want(t, "failures", failures, nil)
		})
	}
}
