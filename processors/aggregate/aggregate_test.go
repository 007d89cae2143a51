package aggregate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/aggregate"
	_ "github.com/flowd-io/flowd/processors/set"
)

func TestAggregateMakesOneDocumentOfABatch(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[
			{"aggregate": {"who": "this.customer", "orders.n": "len(messages())", "orders.total": "sum(messages(), .total)"}},
			{"set": {"mean": "orders.total / orders.n"}}
		]`,
		In: []string{`{"customer":{"id": 7.0},"total":1}`, `{"customer":{"id":8},"total":2}`, `{"total":3}`},
	}.Run(t)
	want := []string{`{"who":{"id": 7.0},"orders":{"n":3,"total":6},"mean":2}`}
	if diff := cmp.Diff(want, bodies); diff != "" || failures != nil {
		t.Errorf("failures %q, delivered (-want +got):\n%s", failures, diff)
	}
}

func TestAnExpressionThatFailsFailsTheWholeBatch(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"aggregate": {"total": "sum(messages(), .total)"}}]`,
		In:    []string{`{"total":1}`, `{"total":"x"}`},
	}.Run(t)
	if len(bodies) != 0 || len(failures) != 1 {
		t.Errorf("delivered %q, failures %q, want nothing and one kind of failure", bodies, failures)
	}
}

func TestAggregateRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{{Name: "no line", Step: `{"aggregate": {}}`,
		Want: "needs at least one line"}})
	_, failures := steptest.Pipeline{Steps: `[{"aggregate": {"n": "1"}}]`, In: []string{`{}`}}.Run(t)
	if len(failures) == 0 {
		t.Error("aggregate is accepted outside of a batch")
	}
}

func TestAggregateConforms(t *testing.T) {
	steptest.Conforms(t, `{"aggregate": {"first": "this.a"}}`, `{"a":1}`, `{"a":2}`)
}
