package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// wedged is an output whose writes hang, and whose Close waits for them.
type wedged struct {
	busy chan struct{} // has room for one: who has the output
	of   *wedges
}

type wedges struct {
	let          chan struct{}
	made, closed atomic.Int32
}

func (w *wedged) Write(context.Context, *engine.Batch) error {
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	<-w.of.let
	return nil
}

func (w *wedged) Close(context.Context) error {
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	w.of.closed.Add(1)
	return nil
}

// A write that hangs can't be closed under; the drain has handed its messages back,
// which is no failure of the run.
func TestADrainLeavesAWriteThatHangsBehind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // of which the write is abandoned after 2 s
	}{{"before it is abandoned", time.Second}, {"after it was abandoned", time.Minute}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &wedges{let: make(chan struct{})}
				src := &Source{Payloads: numbers(10), Takes: engine.TakesOne, Endless: true}
				p := pipe(src, &Sink{})
				p.Engine.OnFailure.Retry = &engine.Retry{Intervals: []time.Duration{time.Hour}}
				p.Outputs = Named("out", engine.OutputSpec{Timeout: time.Second, Use: engine.Use(func(engine.Env) (engine.Output, error) {
					all.made.Add(1)
					return &wedged{make(chan struct{}, 1), all}, nil
				})})
				plan := Build(t, p)
				stop, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				var rep engine.Report
				var wg sync.WaitGroup
				wg.Go(func() { rep = plan.Run(stop, context.Background()) })
				wg.Wait()
				if rep.Code() != 3 || rep.Err != nil || rep.HandedBack == 0 || rep.Stats.Roots.Ended[engine.Returned] != 10 {
					t.Errorf("code %d, err %v, %d handed back, ends %v", rep.Code(), rep.Err, rep.HandedBack, rep.Stats.Roots.Ended)
				}
				close(all.let)
				time.Sleep(time.Second)
				if all.closed.Load() != all.made.Load() {
					t.Errorf("%d of %d instances were closed when their writes had come back", all.closed.Load(), all.made.Load())
				}
			})
		})
	}
}
