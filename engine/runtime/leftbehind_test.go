package runtime_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
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
				p.Outputs = Named("out", engine.OutputSpec{Timeout: time.Second,
					Use: engine.Use(func(engine.Env) (engine.Output, error) {
						all.made.Add(1)
						return &wedged{make(chan struct{}, 1), all}, nil
					})})
				plan := Build(t, p)
				stop, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				var rep runtime.Report
				var wg sync.WaitGroup
				wg.Go(func() { rep = plan.Run(stop, context.Background()) })
				wg.Wait()
				if rep.Code() != 3 || rep.Err != nil || rep.HandedBack == 0 ||
					rep.Stats.Roots.Ended[engine.Returned] != 10 {
					t.Errorf("code %d, err %v, %d handed back, ends %v", rep.Code(), rep.Err, rep.HandedBack,
						rep.Stats.Roots.Ended)
				}
				close(all.let)
				time.Sleep(time.Second)
				if all.closed.Load() != all.made.Load() {
					t.Errorf("%d of %d instances were closed when their writes had come back", all.closed.Load(),
						all.made.Load())
				}
			})
		})
	}
}

// What a drain can't finish goes back to its source; where that takes nothing back, it
// is lost, and the run says so.
func TestWhatADrainLeavesIsReturnedOrLost(t *testing.T) {
	for _, tt := range []struct {
		name     string
		takes    engine.TakesBack
		retry    time.Duration // what waits for another attempt this long; 0: the step hangs
		kill     bool
		code     int
		fate     engine.Fate
		reported int64 // as failures
	}{
		{"a step hangs, the source takes one back", engine.TakesOne, 0, false, 3, engine.Returned, 0},
		{"a step hangs, the source keeps a position", engine.TakesPosition, 0, false, 3, engine.Returned, 0},
		{"a step hangs, the source takes nothing back", engine.TakesNothing, 0, false, 1, engine.Dropped, 4},
		{"a retry waits, the source takes one back", engine.TakesOne, time.Hour, false, 3, engine.Returned, 0},
		{"a retry waits, the source takes nothing back", engine.TakesNothing, time.Hour, false, 1, engine.Dropped, 4},
		{"killed, the source takes one back", engine.TakesOne, 0, true, 3, engine.Returned, 0},
		{"killed, the source takes nothing back", engine.TakesNothing, 0, true, 1, engine.Dropped, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Payloads: numbers(4), Takes: tt.takes, Endless: true}
				p := pipe(src, &Sink{})
				p.Engine.OnFailure.Retry = &engine.Retry{Intervals: []time.Duration{max(tt.retry, 1)}}
				p.Processors = engine.Steps{{Name: "wait",
					Use: Processing(engine.ProcessorFunc(func(ctx context.Context, _ *engine.Message) error {
						if tt.retry > 0 {
							return engine.Errorf(engine.Transient, "not now")
						}
						<-ctx.Done()
						return ctx.Err()
					}))}}
				stop, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				kill := context.Background()
				if tt.kill {
					kill = stop
				}
				rep := Build(t, p).Run(stop, kill)
				reported := int64(0)
				for _, f := range rep.Failures {
					reported += f.Count
					if f.Fate != tt.fate || !f.First.Unfinished ||
						!strings.Contains(f.First.Message, "its source takes nothing back") || f.First.From == "" {
						t.Errorf("failure %+v", f)
					}
				}
				roots, pieces := rep.Stats.Roots, rep.Stats.Pieces
				if rep.Code() != tt.code || roots.Ended[tt.fate] != 4 || pieces.Ended[tt.fate] != 4 ||
					reported != tt.reported || !roots.Balanced() || !pieces.Balanced() {
					t.Errorf("code %d, roots %v, pieces %v, %d reported", rep.Code(), roots, pieces, reported)
				}
			})
		})
	}
}
