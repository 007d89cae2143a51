package switchstep_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/switch"
)

func TestSwitch(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Steps: `[
			{"switch": [
				{"when": "s >= 500", "do": [{"set": {"g": "\"bad\""}}, {"set": {"h": "1"}}]},
				{"when": "s >= 400", "do": [{"filter": "false"}]},
				{"do": [{"set": {"g": "\"good\""}}]}
			]},
			{"set": {"end": "true"}}
		]`,
		In: []string{`{"s":503}`, `{"s":404}`, `{"s":200}`, `{"s":"x"}`},
	}.Run(t)
	want := []string{`{"s":503,"g":"bad","h":1,"end":true}`, `{"s":200,"g":"good","end":true}`}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	if len(failures) != 1 {
		t.Errorf("failures %q, want that of the condition on text", failures)
	}
}

func TestAMessageThatMatchesNoCaseContinues(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Steps: `[{"switch": [{"when": "s >= 500", "do": [{"filter": "false"}]}]}]`,
		In:    []string{`{"s":200}`},
	}.Run(t)
	if diff := cmp.Diff([]string{`{"s":200}`}, bodies); diff != "" || failures != nil {
		t.Errorf("failures %q, delivered (-want +got):\n%s", failures, diff)
	}
}

func TestSwitchRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no case", Step: `{"switch": []}`, Want: "needs at least one case"},
		{Name: "a case that hides the others",
			Step: `{"switch": [{"do": [{"filter": "true"}]}, {"when": "a > 1", "do": [{"filter": "true"}]}]}`,
			Want: "case 1 has no `when`"},
		{Name: "a case without steps", Step: `{"switch": [{"when": "true"}]}`, Want: "do"},
	})
}
