package batch

import (
	"strconv"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// BenchmarkAdd adds a message to a batch of 500, with one key, and with a million recurring keys.
func BenchmarkAdd(b *testing.B) {
	for _, keys := range []int{1, 1_000_000} {
		b.Run(strconv.Itoa(keys)+" keys", func(b *testing.B) {
			names := make([]string, keys)
			for i := range names {
				names[i] = `"customer-` + strconv.Itoa(i) + `"`
			}
			next := 0
			s := newBatcher(defaults, func(*engine.Message) string {
				next++
				return names[next%keys]
			})
			emit := func(*engine.Batch, engine.Trigger) {}
			payloads := make([]string, 256)
			for i := range payloads {
				payloads[i] = `{"customer":"x","status":503}`
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(payloads) {
				b.StopTimer()
				in := enginetest.Batch(payloads...)
				b.StartTimer()
				s.Add(in, start, emit)
			}
		})
	}
}
