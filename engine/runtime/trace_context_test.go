package runtime_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestTheContextOfATraceCanBeSwitchedOff(t *testing.T) {
	for _, keep := range []*bool{nil, new(true), new(false)} {
		src := &enginetest.Source{Payloads: []string{"a", "b"}, Prepare: func(_ int, m *engine.Message) {
			m.Meta = engine.Meta{}.With("traceparent", "00-1-2-01").With("kind", "x").With("baggage", "a=b")
		}}
		dst := &enginetest.Sink{}
		p := &engine.Pipeline{Inputs: enginetest.Named("in", src.Input()), Outputs: enginetest.Named("out", dst.Output())}
		p.Engine.TraceContext = keep
		enginetest.Run(t, p, nil)
		want := 3
		if keep != nil && !*keep {
			want = 1
		}
		for _, w := range dst.Writes() {
			for _, meta := range w.Metas {
				if len(meta) != want || meta["kind"] != "x" {
					t.Errorf("metadata %v, want %d values", meta, want)
				}
			}
		}
		if len(dst.Bodies()) != 2 {
			t.Errorf("delivered %q", dst.Bodies())
		}
	}
}
