package let_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/filter"
)

func TestCountersOfAPipeline(t *testing.T) {
	for range 2 { // two pipelines of two processes
		got, failures := steptest.Pipeline{
			Steps: `[{"set": {"b": "counter(\"y\") * 10"}}, {"split": "[this, this]"}, {"set": {"a": "counter(\"x\")"}}]`,
			In:    []string{`{}`, `{}`},
		}.Run(t)
		want := []string{`{"b":10,"a":1}`, `{"b":10,"a":2}`, `{"b":20,"a":3}`, `{"b":20,"a":4}`}
		if diff := cmp.Diff(want, got); diff != "" || failures != nil {
			t.Errorf("failures %v (-want +got):\n%s", failures, diff)
		}
	}
}

func TestMessagesBringOnlySoManyCounters(t *testing.T) {
	in := make([]string, 10_001)
	for i := range in {
		in[i] = fmt.Sprintf(`{"n":"c%d"}`, i)
	}
	got, failures := steptest.Pipeline{Steps: `[{"set": {"c": "counter(n)"}}]`, In: in}.Run(t)
	if len(got) != 10_000 || len(failures) != 1 || !strings.Contains(failures[0], "there are 10000 counters already") {
		t.Errorf("%d were counted, failures %v", len(got), failures)
	}
}

func TestBatchIndex(t *testing.T) {
	tests := []struct {
		name, batch string
		want        []string
	}{
		{"from 0", `[{"set": {"i": "batch_index()"}}]`, []string{`{"n":1,"i":0}`, `{"n":2,"i":1}`, `{"n":3,"i":2}`}},
		{"a step sees all places before it drops", `[{"filter": "batch_index() % 2 == 0"}, {"set": {"i": "batch_index()"}}]`,
			[]string{`{"n":1,"i":0}`, `{"n":3,"i":2}`}},
		{"sorting does not change it", `[{"sort": "-n"}, {"set": {"i": "batch_index()"}}]`,
			[]string{`{"n":3,"i":2}`, `{"n":2,"i":1}`, `{"n":1,"i":0}`}},
		{"parts have that of the whole", `[{"when": "n == 2", "split": "[1, 2]"}, {"payload": "batch_index()"}]`,
			[]string{`0`, `1`, `1`, `2`}},
		{"steps inside others", `[{"branch": {"do": [{"payload": "batch_index()"}], "into": "i"}}]`,
			[]string{`{"n":1,"i":0}`, `{"n":2,"i":1}`, `{"n":3,"i":2}`}},
		{"a pool", `[{"pool": {"name": "p", "workers": 1, "do": [{"set": {"i": "batch_index()"}}]}}]`,
			[]string{`{"n":1,"i":0}`, `{"n":2,"i":1}`, `{"n":3,"i":2}`}},
		{"what is tried again keeps its place", `[{"when": "n == 3", "let": {"x": "1"}}, ` +
			`{"when": "n > 1", "fail": "no", "retry": {"max_attempts": 2, "backoff": "1ms"}, "on_error": [{"set": {"i": "batch_index()"}}]}]`,
			[]string{`{"n":1}`, `{"n":2,"i":1}`, `{"n":3,"i":2}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failures := steptest.Pipeline{Batch: tt.batch, In: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}}.Run(t)
			if diff := cmp.Diff(tt.want, got); diff != "" || failures != nil {
				t.Errorf("failures %v (-want +got):\n%s", failures, diff)
			}
		})
	}
}
