package runtime_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/google/go-cmp/cmp"
)

// revoked is a source that takes away messages that its Read has just added.
type revoked struct {
	*Source
	h engine.Holding
}

func (r *revoked) Holds(h engine.Holding) { r.h = h }

func (r *revoked) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := r.Source.Read(ctx, b)
	for m := range b.All() {
		if gone := m.Ref; string(m.Bytes()) == `{"n":2}` {
			if n := r.h.Take(func(ref uint64) bool { return ref == gone }); n != 0 {
				panic("a message that is not read yet was counted")
			}
		}
	}
	return r, err
}

// TestAMessageCanBeTakenAwayDuringItsRead takes away the third message before the Read that has added it returns. It is neither written
// nor acknowledged.
func TestAMessageCanBeTakenAwayDuringItsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: numbers(5), PerRead: 1, Takes: engine.TakesPosition}, &Sink{}
		p := pipe(src, dst)
		p.Inputs = Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) {
			return &revoked{Source: src}, nil
		})})
		rep := Build(t, p).Run(t.Context(), context.Background())
		if diff := cmp.Diff(slices.Delete(numbers(5), 2, 3), slices.Sorted(slices.Values(dst.Bodies()))); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if n := rep.Stats.Roots.Ended[engine.Returned]; n != 1 || len(src.Results()) != 4 {
			t.Errorf("%d were returned and %d were acked, want 1 and 4: %+v", n, len(src.Results()), rep.Stats.Roots)
		}
	})
}
