package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// wedged is an output whose writes hang, and whose Close waits for them.
type wedged struct {
	busy chan struct{} // capacity 1: held during a write or Close
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

// An output can't be closed while a write hangs. The drain has handed the messages of that write back, so the run does not fail.
func TestADrainLeavesAWriteThatHangsBehind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // how long the write hangs; it is abandoned after 2 s
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

// Messages that a drain can't finish go back to their source. If the source can't redeliver them, they are dead-lettered. Without a
// dead letter that works, they are lost, and the run reports that.
func TestWhatADrainLeavesIsReturnedOrDeadLetteredOrLost(t *testing.T) {
	const none, works, down, refuses = "", "works", "is down", "refuses"
	for _, tt := range []struct {
		name     string
		takes    engine.TakesBack
		retry    time.Duration // delay before the next attempt; 0: the step hangs
		kill     bool
		dead     string // name of the dead-letter output
		code     int
		fate     engine.Fate
		reported int64 // number of failures in the report
	}{
		{"a step hangs, the source takes one back", engine.TakesOne, 0, false, none, 3, engine.Returned, 0},
		{"a step hangs, the source keeps a position", engine.TakesPosition, 0, false, none, 3, engine.Returned, 0},
		{"a step hangs, the source takes nothing back", engine.TakesNothing, 0, false, none, 1, engine.Dropped, 4},
		{"a retry waits, the source takes one back", engine.TakesOne, time.Hour, false, none, 3, engine.Returned, 0},
		{"a retry waits, the source takes nothing back", engine.TakesNothing, time.Hour, false, none, 1, engine.Dropped, 4},
		{"killed, the source takes one back", engine.TakesOne, 0, true, none, 3, engine.Returned, 0},
		{"killed, the source takes nothing back", engine.TakesNothing, 0, true, none, 1, engine.Dropped, 4},
		{"a step hangs, there is a dead letter", engine.TakesNothing, 0, false, works, 3, engine.DeadLettered, 4},
		{"a retry waits, there is a dead letter", engine.TakesNothing, time.Hour, false, works, 3, engine.DeadLettered, 4},
		{"killed, there is a dead letter", engine.TakesNothing, 0, true, works, 3, engine.DeadLettered, 4},
		{"a step hangs, the source comes before the dead letter", engine.TakesOne, 0, false, works, 3, engine.Returned, 0},
		{"a step hangs, the dead letter is down", engine.TakesNothing, 0, false, down, 1, engine.Dropped, 4},
		{"a retry waits, the dead letter is down", engine.TakesNothing, time.Hour, false, down, 1, engine.Dropped, 4},
		{"a step hangs, the dead letter refuses", engine.TakesNothing, 0, false, refuses, 1, engine.Dropped, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Payloads: numbers(4), Takes: tt.takes, Endless: true}
				p := pipe(src, &Sink{})
				dead := &Sink{}
				if tt.dead != none {
					p.Outputs = schema.MapOf(append(p.Outputs.Entries(), entry("dead", dead.Output()))...)
					p.Engine.OnFailure.DeadLetter = "dead"
					dead.FailAll = func([]string) error {
						switch tt.dead {
						case down:
							return &engine.Error{Class: engine.Transient, Holds: true, Err: errors.New("no connection")}
						case refuses:
							return engine.Errorf(engine.Rejected, "not this one")
						}
						return nil
					}
				}
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
						!strings.Contains(f.First.Message, "its source can't redeliver it") || f.First.From == "" {
						t.Errorf("failure %+v", f)
					}
				}
				roots, pieces := rep.Stats.Roots, rep.Stats.Pieces
				if rep.Code() != tt.code || roots.Ended[tt.fate] != 4 || pieces.Ended[tt.fate] != 4 ||
					reported != tt.reported || !roots.Balanced() || !pieces.Balanced() {
					t.Errorf("code %d, roots %v, pieces %v, %d reported", rep.Code(), roots, pieces, reported)
				}
				if got := slices.Sorted(slices.Values(dead.Bodies())); tt.fate == engine.DeadLettered && !slices.Equal(got, numbers(4)) {
					t.Errorf("the dead letter has %q", got)
				}
			})
		})
	}
}

// A message that waits for one of several outputs says which, and what is wrong with it.
func TestADeadLetterOfAStopNamesTheOutputThatWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, works, dead := &Source{Payloads: numbers(3), Endless: true, Takes: engine.TakesNothing}, &Sink{}, &Sink{}
		down := &Sink{FailAll: func([]string) error {
			return &engine.Error{Class: engine.Transient, Holds: true, Err: errors.New("status 500")}
		}}
		p := pipe(src, works)
		p.Outputs = schema.MapOf(entry("works", works.Output()), entry("broken", down.Output()), entry("dead", dead.Output()))
		p.Batchers = Named("all", engine.BatcherSpec{Output: engine.Names{"works", "broken"}})
		p.Engine.OnFailure.DeadLetter = "dead"
		stop, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rep := Build(t, p).Run(stop, context.Background())
		if len(works.Bodies()) != 3 || len(dead.Bodies()) != 3 || len(rep.Failures) != 1 {
			t.Fatalf("%d delivered, %d dead letters, failures %+v", len(works.Bodies()), len(dead.Bodies()), rep.Failures)
		}
		if f := rep.Failures[0].First; !strings.HasSuffix(f.Message, "output broken was down: status 500") || f.Place != "" {
			t.Errorf("failure %+v", f)
		}
	})
}

// Wherever messages are when a drain ends, each of them is dead-lettered, unchanged.
func TestNothingIsLostWhereTheDeadLetterWorks(t *testing.T) {
	split := proc("split", func(_ context.Context, b *engine.Batch) error {
		for m := range b.All() {
			b.Split(m, func(yield func([]byte, error) bool) {
				_ = yield([]byte(`{"part":1}`), nil) && yield([]byte(`{"part":2}`), nil)
			})
		}
		return nil
	})
	for name, edit := range map[string]func(p *engine.Pipeline){
		"at an output that is down": func(*engine.Pipeline) {},
		"in a batch": func(p *engine.Pipeline) {
			p.Batchers = Named("b", batched(t, `{"size": 3, "timeout": "1h"}`, "out"))
		},
		"in order":   func(p *engine.Pipeline) { p.Engine.OrderBy = expr.MustCompile("n % 2") },
		"split":      func(p *engine.Pipeline) { p.Processors = engine.Steps{split} },
		"in a group": func(p *engine.Pipeline) { p.Processors = engine.Steps{group(engine.GroupConfig{Size: 100})} },
		"rate-limited": func(p *engine.Pipeline) {
			p.Engine.RateLimit = &engine.RateLimit{Messages: 1, Per: time.Hour}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dead := &Source{Payloads: numbers(7), Endless: true, Takes: engine.TakesNothing}, &Sink{}
				out := &Sink{FailAll: func([]string) error {
					return &engine.Error{Class: engine.Transient, Holds: true, Err: errors.New("no connection")}
				}}
				p := pipe(src, out)
				p.Outputs = schema.MapOf(entry("out", out.Output()), entry("dead", dead.Output()))
				p.Engine.OnFailure.DeadLetter = "dead"
				p.Batchers = Named("b", engine.BatcherSpec{Output: engine.Names{"out"}})
				edit(p)
				stop, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				rep := Run(t, p, stop)
				got := slices.Sorted(slices.Values(dead.Bodies()))
				if want := numbers(7)[:src.Taken()]; !slices.Equal(got, want) || rep.Code() != 3 {
					t.Errorf("code %d, the dead letter has %q, want %q", rep.Code(), got, want)
				}
			})
		})
	}
}
