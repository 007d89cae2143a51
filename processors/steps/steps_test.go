package steps_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/internal/testing/steptest"
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
