package sort_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/limit"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/sort"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSort(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{
			Name: "numbers are compared exactly, integers beyond int64 too", Step: `{"sort": "n"}`,
			In: []string{
				`{"n":9007199254740993}`, `{"n":9007199254740992.0}`, `{"n":1e3}`, `{"n":123456789012345678901}`,
				`{"n":-2}`, `{"n":9007199254740992}`, `{"n":-123456789012345678901}`, `{"n":0.5}`,
			},
			Want: []string{
				`{"n":-123456789012345678901}`, `{"n":-2}`, `{"n":0.5}`, `{"n":1e3}`, `{"n":9007199254740992.0}`,
				`{"n":9007199254740992}`, `{"n":9007199254740993}`, `{"n":123456789012345678901}`,
			},
		},
		{
			Name: "text is compared by its bytes", Step: `{"sort": "n"}`,
			In:   []string{`{"n":"b"}`, `{"n":"ä"}`, `{"n":"a"}`, `{"n":"B"}`, `{"n":""}`, `{"n":"aa"}`},
			Want: []string{`{"n":""}`, `{"n":"B"}`, `{"n":"a"}`, `{"n":"aa"}`, `{"n":"b"}`, `{"n":"ä"}`},
		},
		{
			Name: "kinds have an order", Step: `{"sort": "kind == \"t\" ? date(n) : kind == \"d\" ? duration(n) : n"}`,
			In: []string{
				`{"kind":"d","n":"1h"}`, `{"kind":"t","n":"2026-11-20"}`, `{"n":"0"}`, `{"n":7}`, `{"n":true}`,
				`{"n":false}`, `{"n":null}`, `{}`,
				`{"kind":"d","n":"59m"}`, `{"kind":"t","n":"2026-11-19"}`,
			},
			Want: []string{
				`{"n":null}`, `{}`, `{"n":false}`, `{"n":true}`, `{"n":7}`, `{"n":"0"}`,
				`{"kind":"t","n":"2026-11-19"}`, `{"kind":"t","n":"2026-11-20"}`, `{"kind":"d","n":"59m"}`,
				`{"kind":"d","n":"1h"}`,
			},
		},
		{
			Name: "equal values keep their order, the other way round too", Step: `{"sort": {"by": "n", "desc": true}}`,
			In:   []string{`{"n":1,"i":1}`, `{"n":2,"i":2}`, `{"n":1.0,"i":3}`, `{"n":2,"i":4}`, `{"i":5}`, `{"i":6}`},
			Want: []string{`{"n":2,"i":2}`, `{"n":2,"i":4}`, `{"n":1,"i":1}`, `{"n":1.0,"i":3}`, `{"i":5}`, `{"i":6}`},
		},
		{
			Name: "what has no order fails alone", Step: `{"sort": "n + 0 > 0 ? l : n"}`,
			In: []string{`{"n":-1}`, `{"n":1,"l":[1]}`, `not json`, `{"n":-2}`, `{"n":2,"l":{"a":1}}`, `{"n":"x"}`,
				`{"n":-3}`},
			Want: []string{
				`{"n":-3}`, `{"n":-2}`, `{"n":-1}`,
				"failed expression: gives a list, which can't be ordered (sort by one of its values)", "failed decode: ",
				"failed expression: gives an object, which", "failed expression: ",
			},
		},
	})
}

func TestSortRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "nothing to sort by", Step: `{"sort": {}}`, Want: "by"},
		{Name: "no expression", Step: `{"sort": "a a"}`, Want: "sort"},
	})
	_, failures := steptest.Pipeline{Steps: `[{"sort": "n"}]`, In: []string{`{}`}}.Run(t)
	if len(failures) == 0 {
		t.Error("sort is accepted outside of a batch")
	}
}

func TestSortConforms(t *testing.T) {
	steptest.Conforms(t, `{"sort": "this.a"}`, `{"a":2}`, `{"a":1}`, `{"b":1}`)
}

func numbers(n ...int) (payloads []string) {
	for _, n := range n {
		payloads = append(payloads, fmt.Sprintf(`{"n":%d}`, n))
	}
	return payloads
}

func TestStepsBeforeAndBehindSort(t *testing.T) {
	tests := []struct{ name, steps, want string }{
		{"a top list", `[{"sort": {"by": "n", "desc": true}}, {"limit": 2}]`, `{"n":9} {"n":7}`},
		{"edits move along", `[{"set": {"m": "n * 2"}}, {"sort": "m"}, {"set": {"m": "m + 1"}}, {"limit": 2}]`,
			`{"n":1,"m":3} {"n":3,"m":7}`},
		{"the last sort counts most", `[{"sort": "n"}, {"sort": "n % 2"}]`, `{"n":4} {"n":1} {"n":3} {"n":7} {"n":9}`},
		{"only those for which when holds change places", `[{"sort": "n", "when": "n > 3"}]`,
			`{"n":3} {"n":4} {"n":1} {"n":7} {"n":9}`},
		{"messages() sees the new order", `[{"sort": "n"}, {"set": {"all": "map(messages(), .n)"}}, {"limit": 1}]`,
			`{"n":1,"all":[1,3,4,7,9]}`},
		{
			"what on_error brings back is as it was, where it was",
			`[{"sort": "n == 4 ? [n] : n", "on_error": "continue"}]`, `{"n":1} {"n":3} {"n":7} {"n":9} {"n":4}`,
		},
		{
			"what on_error repairs is repaired",
			`[{"sort": "n == 4 ? [n] : n", "on_error": [{"set": {"bad": "true"}}]}]`,
			`{"n":1} {"n":3} {"n":7} {"n":9} {"n":4,"bad":true}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bodies, failures := steptest.Pipeline{Batch: tt.steps, In: numbers(3, 9, 1, 7, 4)}.Run(t)
			if got := strings.Join(bodies, " "); got != tt.want || failures != nil {
				t.Errorf("delivered %s, want %s; failures %q", got, tt.want, failures)
			}
		})
	}
}

// TestSortAgreesWithAStableSort sorts values of all kinds of a document.
func TestSortAgreesWithAStableSort(t *testing.T) {
	values := []string{`null`, `false`, `true`, `-1`, `0`, `0.5`, `1`, `1.0`, `2`, `1e2`, `99999999999999999999`, `""`,
		`"10"`, `"a"`, `"b"`}
	order := map[string]int{}
	for i, v := range values {
		order[v] = i
	}
	order["1.0"] = order["1"]
	rapid.Check(t, func(rt *rapid.T) {
		desc := rapid.Bool().Draw(rt, "desc")
		drawn := rapid.SliceOfN(rapid.SampledFrom(values), 0, 300).Draw(rt, "values")
		type item struct{ value, body string }
		var items []item
		var in, want []string
		for i, v := range drawn {
			body := fmt.Sprintf(`{"v":%s,"i":%d}`, v, i)
			in, items = append(in, body), append(items, item{v, body})
		}
		slices.SortStableFunc(items, func(x, y item) int {
			if desc {
				x, y = y, x
			}
			return order[x.value] - order[y.value]
		})
		for _, it := range items {
			want = append(want, it.body)
		}
		p := enginetest.New(t, engine.Processors, fmt.Sprintf(`{"sort": {"by": "v", "desc": %v}}`, desc))
		var got []string
		for _, o := range enginetest.Apply(t, p, in...) {
			got = append(got, o.Body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("desc %v (-want +got):\n%s", desc, diff)
		}
	})
}

func BenchmarkSort(b *testing.B) {
	p := enginetest.New(b, engine.Processors, `{"sort": "n"}`)
	var in []string
	for range 500 {
		in = append(in, fmt.Sprintf(`{"n":%d,"name":"a message of usual length, more or less"}`, rand.IntN(1000)))
	}
	run := runtime.NewRunner(p)
	b.ReportAllocs()
	for i := 0; i < b.N; i += len(in) {
		b.StopTimer()
		batch := enginetest.Batch(in...)
		b.StartTimer()
		if err := run.Run(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
