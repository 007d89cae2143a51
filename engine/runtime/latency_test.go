package runtime_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// TestMessagesAreTimedFromReadToSettled has messages that wait for an output, and a source that is five seconds late.
func TestMessagesAreTimedFromReadToSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &Sink{Block: make(chan struct{})}
		src := &Source{Payloads: numbers(8), PerRead: 2, Every: time.Second, Endless: true, Takes: engine.TakesOne,
			Prepare: func(_ int, m *engine.Message) { m.Meta = m.Meta.With("timestamp", time.Now().Add(-5*time.Second)) }}
		p := pipe(src, dst)
		p.Engine.MaxInFlight.Messages = 4
		plan := Build(t, p)
		stop, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { plan.Run(stop, context.Background()) })
		behind := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := plan.Snapshot().Inputs[0].Behind; got == nil || *got != want {
				t.Errorf("the input is behind by %v, want %v", got, want)
			}
		}
		if got := plan.Snapshot().Inputs; len(got) > 0 && got[0].Behind != nil {
			t.Errorf("behind by %v before anything is read", *got[0].Behind)
		}
		time.Sleep(1500 * time.Millisecond)
		behind(5 * time.Second) // it reads
		time.Sleep(8500 * time.Millisecond)
		behind(13 * time.Second) // it has waited for room since the second Read
		close(dst.Block)
		time.Sleep(time.Minute)
		behind(5 * time.Second)
		cancel()
		wg.Wait()

		s := plan.Snapshot()
		for name, h := range map[string]engine.Histogram{"settled": s.Latency, "written": s.Outputs[0].Delivery} {
			var native int64
			for _, n := range h.Native {
				native += n
			}
			// Two were read after a second and two after another, and written after ten. The others are written at once.
			if h.Count != 8 || native != 8 || h.Sum != 2*9+2*8 {
				t.Errorf("%s: %d messages in %v s, %d in native buckets; want 8 in 34 s", name, h.Count, h.Sum, native)
			}
		}
	})
}
