package runtime_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
)

// TestBulk has writes that take a while: where an output says so, the next one takes all that has come meanwhile.
func TestBulk(t *testing.T) {
	for _, tt := range []struct {
		name        string
		bulk        bool
		concurrency int
		ordered     bool
		largest     int
	}{
		{"by default", false, 1, false, 256},
		{"bulk", true, 1, false, 2048},
		{"bulk, two writes at once", true, 2, false, 2048},
		{"bulk, in order", true, 1, true, 2048},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Payloads: numbers(20_000)}
				dst := &Sink{Delay: time.Second, Bulk: tt.bulk, Ordered: tt.ordered}
				p := pipe(src, dst)
				out := dst.Output()
				out.Concurrency = engine.Concurrency(tt.concurrency)
				p.Outputs = Named("out", out)
				if tt.ordered {
					p.Engine.OrderBy = expr.MustCompile(`"all"`)
				}
				Build(t, p).Run(t.Context(), context.Background())
				sizes := map[int]int{}
				for _, w := range dst.Writes() {
					sizes[len(w.Bodies)]++
				}
				most := slices.Max(slices.Collect(maps.Keys(sizes)))
				if most != tt.largest || sizes[most] < 20_000/most/2 {
					t.Errorf("writes of so many messages: %v; want most of %d", sizes, tt.largest)
				}
				if dst.Most() != tt.concurrency {
					t.Errorf("%d writes at once, want %d", dst.Most(), tt.concurrency)
				}
				if len(dst.Bodies()) != 20_000 || tt.ordered && fmt.Sprint(dst.Bodies()) != fmt.Sprint(numbers(20_000)) {
					t.Errorf("%d messages were written, or not in order", len(dst.Bodies()))
				}
			})
		})
	}
}
