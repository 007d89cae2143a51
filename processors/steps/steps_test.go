package steps_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/steps"
)

func TestNamedStepsRunWhereTheyAreUsed(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Steps: `[{"steps": "inc"}, {"set": {"b": "this.n"}}, {"steps": "inc"}]`,
		Named: map[string]string{"inc": `[{"set": {"n": "n + 1"}}]`},
		In:    []string{`{"n":1}`},
	}.Run(t)
	if diff := cmp.Diff([]string{`{"n":3,"b":2}`}, bodies); diff != "" {
		t.Errorf("failures %q, delivered (-want +got):\n%s", failures, diff)
	}
}

func TestStepsThatDoNotExistAreRefused(t *testing.T) {
	_, failures := steptest.Pipeline{
		Steps: `[{"steps": "inc"}]`,
		Named: map[string]string{"ink": `[{"set": {"n": "n + 1"}}]`},
	}.Run(t)
	if got := strings.Join(failures, "\n"); !strings.Contains(got, `"inc"`) {
		t.Errorf("problems %q, want one that names the steps", got)
	}
}

func TestStepsAreCalledAfterTheUse(t *testing.T) {
	const told = `"on_error": [{"set": {"at": "error().step"}}]`
	bodies, failures := steptest.Pipeline{
		Steps: `[{"steps": {"check": {"kind": "a"}}}, {"steps": {"check": {"kind": "b"}}},
			{"name": "last", "steps": {"check": {"kind": "c"}}}, {"steps": "all"},
			{"steps": [{"when": "kind == \"e\"", "fail": "here", ` + told + `}]}]`,
		Named: map[string]string{
			"check": `{"parameters": {"kind": {}}, "do": [{"when": "kind == ${param.kind}", "fail": "x", ` + told + `}]}`,
			"all":   `[{"steps": {"check": {"kind": "d"}}}]`,
		},
		In: []string{`{"kind":"a"}`, `{"kind":"b"}`, `{"kind":"c"}`, `{"kind":"d"}`, `{"kind":"e"}`},
	}.Run(t)
	want := []string{`{"kind":"a","at":"check/fail"}`, `{"kind":"b","at":"check 2/fail"}`, `{"kind":"c","at":"last/fail"}`,
		`{"kind":"d","at":"all/check/fail"}`, `{"kind":"e","at":"fail"}`}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Errorf("failures %q, delivered (-want +got):\n%s", failures, diff)
	}
}
