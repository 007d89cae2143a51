package window

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// BenchmarkAdd adds a message to the windows of one key, and to one of a million open windows.
func BenchmarkAdd(b *testing.B) {
	for _, bb := range []struct {
		name string
		c    Config
	}{
		{"fixed", Config{Every: time.Hour}},
		{"by event", Config{Every: time.Hour, Time: byEvent}},
		{"sliding, 6 copies", Config{Every: time.Hour, Slide: 10 * time.Minute}},
		{"session", Config{Session: time.Hour}},
	} {
		for _, keys := range []int{1, 1_000_000} {
			b.Run(fmt.Sprintf("%s, %d keys", bb.name, keys), func(b *testing.B) {
				names := make([]string, keys)
				for i := range names {
					names[i] = fmt.Sprintf(`"customer-%d"`, i)
				}
				next := 0
				s := newBatcher(bb.c, func(*engine.Message) string {
					next++
					return names[next%keys]
				}, slog.New(slog.DiscardHandler))
				emit := func(*engine.Batch, engine.Trigger) {}
				payloads := make([]string, 256)
				for i := range payloads {
					payloads[i] = fmt.Sprintf(`{"t":%d,"status":503}`, 1763640000+i)
				}
				now := time.Unix(1763640000, 0)
				b.ReportAllocs()
				for i := 0; i < b.N; i += len(payloads) {
					b.StopTimer()
					in := enginetest.Batch(payloads...)
					if i > 0 && i%1_000_000 < len(payloads) { // as credits would limit it
						s.Flush(now, engine.ByEnd, -1, emit)
					}
					now = now.Add(time.Millisecond)
					b.StartTimer()
					s.Add(in, now, emit)
				}
			})
		}
	}
}

// BenchmarkClose measures one of a million windows that close at once.
func BenchmarkClose(b *testing.B) {
	const keys = 1_000_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf(`"customer-%d"`, i)
	}
	next := 0
	s := newBatcher(Config{Every: time.Hour}, func(*engine.Message) string { next++; return names[next%keys] },
		slog.New(slog.DiscardHandler))
	payloads := make([]string, 256)
	for i := range payloads {
		payloads[i] = "x"
	}
	now := time.Unix(1763640000, 0)
	emit := func(*engine.Batch, engine.Trigger) {}
	for i := 0; i < b.N; i += keys {
		b.StopTimer()
		for n := 0; n < keys; n += len(payloads) {
			s.Add(enginetest.Batch(payloads...), now, emit)
		}
		now = now.Add(time.Hour)
		b.StartTimer()
		s.Flush(now, engine.ByTimeout, 0, emit)
	}
}
