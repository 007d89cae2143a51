package let_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/branch"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/group"
	_ "github.com/flowd-io/flowd/processors/let"
	_ "github.com/flowd-io/flowd/processors/parallel"
	_ "github.com/flowd-io/flowd/processors/payload"
	_ "github.com/flowd-io/flowd/processors/pool"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/sort"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/steps"
	_ "github.com/flowd-io/flowd/processors/switch"
	_ "github.com/flowd-io/flowd/processors/while"
)

func TestLetConforms(t *testing.T) {
	steptest.Conforms(t, `{"let": {"x": "this.a"}}`, `{"a":1}`, `{"c":2}`)
}

// show is a step that writes the vars into the payload.
const show = `{"set": {"v": "vars()"}}`

func TestScopeOfVars(t *testing.T) {
	tests := []struct {
		name, steps, batch string
		in, want           []string
		failures           []string
	}{
		{"later lines and steps", `[{"let": {"x": "a + 1", "y": "vars(\"x\") * 10"}}, ` + show + `]`, "",
			[]string{`{"a":1}`}, []string{`{"a":1,"v":{"x":2,"y":20}}`}, nil},
		{"none before the first let", `[{"set": {"x": "vars(\"x\")", "v": "vars()"}}]`, "",
			[]string{`{}`}, []string{`{"x":null,"v":{}}`}, nil},
		{"a name is set again, and removed", `[{"let": {"x": "1", "y": "2", "z": "3"}}, {"let": {"x": "4", "y": "nil", "w": "nil"}}, ` +
			show + `]`, "", []string{`{}`}, []string{`{"v":{"x":4,"z":3}}`}, nil},
		{"nothing is sent", `[{"let": {"x": "1"}}]`, "", []string{`{"a": 1}`}, []string{`{"a": 1}`}, nil},
		{"each message has its own", `[{"let": {"x": "a"}}, {"set": {"b": "vars(\"x\")"}}]`, "",
			[]string{`{"a":1}`, `{"a":2}`}, []string{`{"a":1,"b":1}`, `{"a":2,"b":2}`}, nil},
		{"parts of a split", `[{"let": {"x": "a"}}, {"split": "p"}, ` + show + `]`, "",
			[]string{`{"a":1,"p":[{},{}]}`}, []string{`{"v":{"x":1}}`, `{"v":{"x":1}}`}, nil},
		{"elements of each, where they stay", `[{"let": {"x": "a"}}, {"each": {"in": "p", "do": [` + show +
			`, {"let": {"y": "1"}}]}}, ` + show + `]`, "",
			[]string{`{"a":1,"p":[{}]}`}, []string{`{"a":1,"p":[{"v":{"x":1}}],"v":{"x":1}}`}, nil},
		{"branch, where they stay", `[{"let": {"x": "a"}}, {"branch": {"in": "{}", "do": [` + show +
			`, {"let": {"y": "1"}}], "into": "b"}}, ` + show + `]`, "",
			[]string{`{"a":1}`}, []string{`{"a":1,"b":{"v":{"x":1}},"v":{"x":1}}`}, nil},
		{"branches of parallel, which bring back theirs",
			`[{"let": {"x": "1", "y": "1", "z": "1"}}, {"parallel": {"p": [{"let": {"x": "vars(\"x\") + 1", "z": "nil"}}], ` +
				`"q": [{"let": {"y": "vars(\"x\") + 2", "w": "5"}}]}}, ` + show + `]`, "",
			[]string{`{}`}, []string{`{"v":{"w":5,"x":2,"y":3}}`}, nil},
		{"rounds of while", `[{"while": {"when": "(vars(\"n\") ?? 0) < 70", "do": [{"let": {"n": "(vars(\"n\") ?? 0) + 1"}}]}}, ` +
			show + `]`, "", []string{`{}`}, []string{`{"v":{"n":70}}`}, nil},
		{"a pool, there and back", `[{"let": {"x": "1"}}, {"pool": {"name": "p", "workers": 1, "do": [{"let": {"y": "vars(\"x\") + 1"}}]}}, ` +
			show + `]`, "", []string{`{}`}, []string{`{"v":{"x":1,"y":2}}`}, nil},
		{"a group", `[{"let": {"x": "a"}}, {"group": {"size": 2, "do": [{"sort": "-vars(\"x\")"}]}}, ` + show + `]`, "",
			[]string{`{"a":1}`, `{"a":2}`}, []string{`{"a":2,"v":{"x":2}}`, `{"a":1,"v":{"x":1}}`}, nil},
		{"steps of a batch, and a merge has those of its first", `[{"let": {"x": "a"}}]`,
			`[{"set": {"b": "vars(\"x\")"}}, {"archive": "json_array"}, {"payload": "string(vars(\"x\"))"}]`,
			[]string{`{"a":7}`, `{"a":8}`}, []string{`7`}, nil},
		{"a step that fails leaves those before it", `[{"let": {"x": "1"}}, {"let": {"x": "2", "y": "a.b + 1"}, "on_error": "continue"}, ` +
			show + `]`, "", []string{`{"a":1}`}, []string{`{"a":1,"v":{"x":1}}`}, nil},
		{"a repair sees those before the step", `[{"let": {"x": "1"}}, {"let": {"x": "2", "y": "a.b + 1"}, "on_error": [` +
			show + `]}]`, "", []string{`{"a":1}`}, []string{`{"a":1,"v":{"x":1}}`}, nil},
		{"a block that fails leaves those before it",
			`[{"let": {"x": "1"}}, {"switch": [{"do": [{"let": {"x": "2"}}, {"fail": "no"}]}], "on_error": "continue"}, ` + show + `]`,
			"", []string{`{}`}, []string{`{"v":{"x":1}}`}, nil},
		{"a block that is tried again begins with those before it",
			`[{"switch": [{"do": [{"let": {"n": "(vars(\"n\") ?? 0) + 1"}}, {"when": "vars(\"n\") > 1", "fail": "kept"}, {"fail": "no"}]}], ` +
				`"retry": {"max_attempts": 3, "backoff": "1ms"}, "on_error": "continue"}, ` + show + `]`,
			"", []string{`{}`}, []string{`{"v":{}}`}, nil},
		{"bytes, times and durations",
			`[{"let": {"b": "bytes(\"hé\")", "t": "date(\"2026-01-02\")", "d": "duration(\"1h\")", "n": "int(\"18446744073709551616\")"}}, ` +
				`{"set": {"v": "[len(vars(\"b\")), vars(\"t\") + vars(\"d\"), vars(\"n\")]"}}]`, "",
			[]string{`{}`}, []string{`{"v":[3,"2026-01-02T01:00:00Z",18446744073709551616]}`}, nil},
		{"a message that fails alone", `[{"let": {"x": "a + 1"}}, ` + show + `]`, "",
			[]string{`{"a":"b"}`, `{"a":1}`}, []string{`{"a":1,"v":{"x":2}}`}, []string{"expression: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failures := steptest.Pipeline{Steps: tt.steps, Batch: tt.batch, In: tt.in}.Run(t)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(failures) != len(tt.failures) {
				t.Errorf("got failures %q, want %q", failures, tt.failures)
			}
			for i, want := range tt.failures {
				if i < len(failures) && !strings.HasPrefix(failures[i], want) {
					t.Errorf("got failure %q, want %q", failures[i], want)
				}
			}
		})
	}
}

func TestLetNeedsALine(t *testing.T) {
	got := fmt.Sprint(enginetest.Problems(t, engine.Processors, `{"let": {}}`))
	if !strings.Contains(got, "let needs at least one line") {
		t.Errorf("got %s", got)
	}
}

// Messages without vars need no memory for them. Those with vars need memory for the kept values only.
func BenchmarkLet(b *testing.B) {
	p := enginetest.New(b, engine.Processors, `{"let": {"x": "a"}}`)
	in := make([]string, 256)
	for i := range in {
		in[i] = `{"a":1}`
	}
	b.ReportAllocs()
	for i := 0; i < b.N; i += len(in) {
		b.StopTimer()
		batch := enginetest.Batch(in...)
		b.StartTimer()
		if err := p.Process(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
