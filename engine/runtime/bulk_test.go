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

// TestBulk uses slow writes. If the output asks for bulk writes, the next one contains all messages that have arrived meanwhile.
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
		{"bulk, in order, where two writes were possible", true, 2, true, 2048},
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
				most = tt.concurrency
				if tt.ordered {
					most = 1 // all have one key
				}
				if dst.Most() != most {
					t.Errorf("%d writes at once, want %d", dst.Most(), most)
				}
				if len(dst.Bodies()) != 20_000 || tt.ordered && fmt.Sprint(dst.Bodies()) != fmt.Sprint(numbers(20_000)) {
					t.Errorf("%d messages were written, or not in order", len(dst.Bodies()))
				}
			})
		})
	}
}

// TestBulkKeepsTheOrderOfKeys uses slow writes with several keys each. Messages that waited for their key are written together, while
// other keys are being written.
func TestBulkKeepsTheOrderOfKeys(t *testing.T) {
	for _, keys := range []int{2, 7, 100, 5000} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 50_000
				bodies := make([]string, n)
				for i := range bodies {
					bodies[i] = fmt.Sprintf(`{"key": %d, "n": %d}`, i*i%keys, i)
				}
				dst := &Sink{Delay: time.Second, Bulk: true, Ordered: true}
				p := pipe(&Source{Payloads: bodies}, dst)
				out := dst.Output()
				out.Concurrency = 3
				p.Outputs = Named("out", out)
				p.Engine.OrderBy = expr.MustCompile("key")
				Build(t, p).Run(t.Context(), context.Background())
				last := make([]int, keys)
				for _, b := range dst.Bodies() {
					var key, i int
					if _, err := fmt.Sscanf(b, `{"key": %d, "n": %d}`, &key, &i); err != nil {
						t.Fatal(err)
					}
					if i < last[key] {
						t.Fatalf("%d was written after %d, of the same key", i, last[key])
					}
					last[key] = i
				}
				if got, writes := len(dst.Bodies()), len(dst.Writes()); got != n || writes > n/1000 {
					t.Errorf("%d messages in %d writes, want %d in %d at most", got, writes, n, n/1000)
				}
			})
		})
	}
}
