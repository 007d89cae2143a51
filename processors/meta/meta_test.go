package meta_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/meta"
	"github.com/google/go-cmp/cmp"
)

func TestMetadataIsSetInOrder(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"meta": {"tenant": "customer.id", "copy": "meta(\"tenant\") + 1", "gone": "1"}}`)
	drop := enginetest.New(t, engine.Processors, `{"meta": {"gone": "nil", "never there": "nil"}}`)
	b := enginetest.Batch(`{"customer":{"id":7}}`)
	if err := runtime.NewRunner(p, drop).Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		want := map[string]any{"tenant": 7, "copy": 8}
		if diff := cmp.Diff(want, m.Meta.Map()); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
	}
}

func TestMetaFailsSinglyAndKeepsThePayload(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "a wrong type", Step: `{"meta": {"x": "a + 1"}}`, In: []string{`{"a":"x"}`, `{"a": 1}`},
			Want: []string{`{"a": 1}`, "failed expression: a + 1"}},
		{Name: "no document", Step: `{"meta": {"x": "this.a"}}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestMetaConforms(t *testing.T) {
	steptest.Conforms(t, `{"meta": {"x": "this.a"}}`, `{"a":1}`, `{"c":2}`)
}
