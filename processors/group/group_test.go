package group_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/group"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/switch"
)

func TestGroup(t *testing.T) {
	tests := []struct {
		name, steps string
		want        []string
		failures    []string
	}{
		{"three make one", `[{"group": {"size": 3, "do": [{"archive": "lines"}]}}]`,
			[]string{"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n", "{\"n\":4}\n"}, nil},
		{"its steps see the batch, later ones the messages",
			`[{"group": {"size": 2, "do": [{"set": {"of": "batch_size()", "last": "messages()[-1].n"}}]}}, {"set": {"x": "n + 1"}}]`,
			[]string{`{"n":1,"of":2,"last":2,"x":2}`, `{"n":2,"of":2,"last":2,"x":3}`, `{"n":3,"of":2,"last":4,"x":4}`,
				`{"n":4,"of":2,"last":4,"x":5}`}, nil},
		{"in a case", `[{"switch": [{"when": "n > 2", "do": [{"group": {"size": 2, "do": [{"archive": "lines"}]}}]}]}]`,
			[]string{`{"n":1}`, `{"n":2}`, "{\"n\":3}\n{\"n\":4}\n"}, nil},
		{"without an end", `[{"group": {"do": [{"archive": "lines"}]}}]`, nil,
			[]string{"a group needs a limit at which it is complete"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bodies, failures := steptest.Pipeline{Steps: tt.steps,
				In: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}}.Run(t)
			if diff := cmp.Diff(tt.want, bodies); diff != "" {
				t.Errorf("delivered (-want +got):\n%s", diff)
			}
			if len(failures) != len(tt.failures) {
				t.Errorf("failures %q, want %q", failures, tt.failures)
			}
		})
	}
}
