package runtime_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
)

// lagging is an input whose Read returns a second after its context has ended.
type lagging struct{}

func (lagging) Read(ctx context.Context, _ *engine.Batch) (engine.Acker, error) {
	<-ctx.Done()
	time.Sleep(time.Second)
	return nil, ctx.Err()
}

func (lagging) Traits() engine.Traits { return engine.Traits{} }

// saw is a log that notes whether reading is paused.
type saw struct{ atomic.Bool }

func (s *saw) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("reading is paused")) {
		s.Store(true)
	}
	return len(line), nil
}

// After the log line, no Read is running, so an operator may, for instance, change the files of the input.
func TestTheLogSaysPausedWhenReadsHaveReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused saw
		stop, cancel := context.WithCancel(t.Context())
		plan, problems := runtime.Build(&engine.Pipeline{
			Inputs: Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) {
				return lagging{}, nil
			})}),
			Outputs: Named("out", (&Sink{}).Output()),
		}, runtime.Options{Log: slog.New(slog.NewTextHandler(&paused, nil))})
		if plan == nil {
			t.Fatal(problems)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			plan.Run(stop, context.Background())
		}()
		synctest.Wait()
		for _, want := range []bool{false, true} {
			plan.Pause()
			synctest.Wait()
			if got := paused.Load(); got != want {
				t.Errorf("the log says that reading is paused: %v, want %v", got, want)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		cancel()
		<-done
	})
}
