package limit_test

import (
	"testing"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/limit"

	"github.com/google/go-cmp/cmp"
)

func TestLimit(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "the first stay", Step: `{"limit": 2}`, In: []string{"a", "b", "c", "d"},
			Want: []string{"a", "b", "dropped", "dropped"}},
		{Name: "the last stay", Step: `{"limit": {"count": 3, "from": "last"}}`, In: []string{"a", "b", "c", "d"},
			Want: []string{"b", "c", "d", "dropped"}},
		{Name: "a batch as large as the count stays", Step: `{"limit": 2}`, In: []string{"a", "b"},
			Want: []string{"a", "b"}},
		{Name: "a smaller batch stays", Step: `{"limit": {"count": 9, "from": "last"}}`, In: []string{"a", "b"},
			Want: []string{"a", "b"}},
		{Name: "no message, nothing to do", Step: `{"limit": 1}`},
	})
}

func TestLimitCountsWhatIsLeftOfTheBatch(t *testing.T) {
	for step, want := range map[string][]string{
		`{"limit": 2}`: {`{"n":2}`, `{"n":4}`},
		`{"limit": {"count": 2, "from": "last"}}`: {`{"n":4}`, `{"n":6}`},
		`{"limit": 1, "when": "n > 2"}`:           {`{"n":2}`, `{"n":4}`},
	} {
		bodies, failures := steptest.Pipeline{
			Batch: `[{"filter": "n % 2 == 0"}, ` + step + `]`,
			In:    []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":5}`, `{"n":6}`},
		}.Run(t)
		if diff := cmp.Diff(want, bodies); diff != "" || failures != nil {
			t.Errorf("%s: failures %q, delivered (-want +got):\n%s", step, failures, diff)
		}
	}
}

func TestLimitRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no count", Step: `{"limit": {"from": "last"}}`, Want: "count"},
		{Name: "nothing left", Step: `{"limit": 0}`, Want: "at least 1"},
		{Name: "a negative count", Step: `{"limit": {"count": -1}}`, Want: "at least 1"},
		{Name: "another end", Step: `{"limit": {"count": 1, "from": "middle"}}`, Want: "first, last"},
	})
	_, failures := steptest.Pipeline{Steps: `[{"limit": 1}]`, In: []string{`{}`}}.Run(t)
	if len(failures) == 0 {
		t.Error("limit is accepted outside of a batch")
	}
}

func TestLimitConforms(t *testing.T) { steptest.Conforms(t, `{"limit": 1}`, "a", "b") }
