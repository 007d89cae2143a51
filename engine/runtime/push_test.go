package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// pushing is a plan that runs, with an input that has nothing to read.
type pushing struct {
	*testing.T
	plan *runtime.Plan
	stop context.CancelFunc
	kill context.CancelFunc
	done chan runtime.Report
}

func startPushing(t *testing.T, p *engine.Pipeline) *pushing {
	t.Helper()
	x := &pushing{T: t, plan: Build(t, p), done: make(chan runtime.Report, 1)}
	var stop, kill context.Context
	stop, x.stop = context.WithCancel(context.Background())
	kill, x.kill = context.WithCancel(context.Background())
	go func() { x.done <- x.plan.Run(stop, kill) }()
	synctest.Wait()
	return x
}

// push pushes into the input "in", and returns each fate, with its error.
func (x *pushing) push(ctx context.Context, payloads ...string) []string {
	x.Helper()
	results, err := x.plan.Push(ctx, "in", Batch(payloads...))
	if err != nil {
		return []string{err.Error()}
	}
	return fatesOf(results)
}

func fatesOf(results []*engine.Result) []string {
	var all []string
	for _, r := range results {
		switch {
		case r == nil:
			all = append(all, "in_flight")
		case r.Err != nil:
			all = append(all, fmt.Sprintf("%s: %v", r.Fate, r.Err))
		default:
			all = append(all, r.Fate.String())
		}
	}
	return all
}

func (x *pushing) want(got []string, want ...string) {
	x.Helper()
	if !slices.Equal(got, want) {
		x.Errorf("got %q, want %q", got, want)
	}
}

// ends waits for the end of the run, whose counts must add up.
func (x *pushing) ends(received int64) {
	x.Helper()
	x.stop()
	defer x.kill()
	rep := <-x.done
	if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 || c.Received != received {
		x.Errorf("roots %+v, want %d received", c, received)
	}
}

func unread() *Source { return &Source{Endless: true, Takes: engine.TakesPosition} }

func TestPushedMessagesGetTheirFates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, tries := &Sink{}, 0
		dst := &Sink{Fail: func(body string) error {
			switch {
			case strings.HasSuffix(body, "flaky") && tries < 2:
				tries++
				return errors.New("busy")
			case strings.HasSuffix(body, "bad"):
				return engine.Errorf(engine.Rejected, "no such table")
			}
			return nil
		}}
		p := pipe(unread(), dst, Step("filter", func(_ context.Context, m *engine.Message) error {
			if strings.HasSuffix(string(m.Bytes()), "filtered") {
				m.Drop()
			}
			return nil
		}))
		in := p.Inputs.Entries()[0].Value
		in.Processors = engine.Steps{Step("own", func(_ context.Context, m *engine.Message) error {
			m.SetBytes([]byte(m.Input() + "-" + string(m.Bytes())))
			return nil
		})}
		p.Inputs = Named("in", in)
		p.Outputs = schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: dst.Output()},
			schema.Entry[engine.OutputSpec]{Key: "dead", Value: dead.Output()})
		p.Engine.OnFailure = engine.EngineFailure{Retry: &engine.Retry{MaxAttempts: 5},
			OnFailure: engine.OnFailure{DeadLetter: "dead"}}
		x := startPushing(t, p)
		x.want(x.push(t.Context(), "good", "filtered", "bad", "flaky"), "delivered", "filtered",
			"dead_lettered: no such table", "delivered")
		wantSame(t, dst.Bodies(), []string{"in-good", "in-flaky"})
		wantSame(t, dead.Bodies(), []string{"bad"})
		x.want(x.push(t.Context()))
		if in := x.plan.Snapshot().Inputs[0]; in.Received != 4 {
			t.Errorf("the input has received %d", in.Received)
		}
		x.ends(4)
	})
}

// The source of the input keeps a position, so that its own messages would stop the pipeline.
func TestAPushedMessageThatFailsIsReturnedToWhoeverPushedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &Sink{Fail: func(string) error { return engine.Errorf(engine.Rejected, "no") }}
		x := startPushing(t, pipe(unread(), dst))
		x.want(x.push(t.Context(), "a"), "returned: no")
		x.want(x.push(t.Context(), "b"), "returned: no")
		x.ends(2)
	})
}

func TestAPausedPipelineReadsOnlyWhatIsPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(100), Every: time.Second, PerRead: 1, Endless: true}
		dst := &Sink{}
		x := startPushing(t, pipe(src, dst))
		x.plan.Pause()
		synctest.Wait()
		before := len(dst.Bodies())
		x.want(x.push(t.Context(), "a"), "delivered")
		time.Sleep(time.Minute)
		if got := dst.Bodies()[before:]; !slices.Equal(got, []string{"a"}) {
			t.Errorf("got %q", got)
		}
		x.plan.Resume()
		time.Sleep(time.Minute)
		if n := len(dst.Bodies()); n < before+50 {
			t.Errorf("%d messages after the pause", n)
		}
		x.stop()
		<-x.done
		x.kill()
	})
}

func TestAPushWaitsForRoomAndLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &Sink{Block: make(chan struct{})}
		p := pipe(unread(), dst)
		p.Engine.MaxInFlight.Messages = 2
		x := startPushing(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		x.want(x.push(ctx, "a", "b", "c"), "in_flight", "in_flight",
			"returned: it was not read: there was no room for it in time")
		close(dst.Block)
		// The reader of the source waits for room, too: it would keep all of it, since it has nothing to read.
		for range 5 {
			x.want(x.push(t.Context(), "d", "e", "f"), "delivered", "delivered", "delivered")
		}
		x.ends(17)
	})
	synctest.Test(t, func(t *testing.T) {
		dst := &Sink{}
		p := pipe(unread(), dst)
		in := p.Inputs.Entries()[0].Value
		in.RateLimit = &engine.RateLimit{Messages: 1, Per: time.Second}
		p.Inputs = Named("in", in)
		x := startPushing(t, p)
		began := time.Now()
		x.want(x.push(t.Context(), "a", "b", "c", "d"), "delivered", "delivered", "delivered", "delivered")
		if took := time.Since(began); took < 3*time.Second || took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		x.ends(4)
	})
}

func TestAnEndDuringAPushGivesClearFates(t *testing.T) {
	start := func(t *testing.T) (*pushing, chan []string) {
		p := pipe(unread(), &Sink{Delay: 5 * time.Second})
		p.Engine.MaxInFlight.Messages = 2
		x, got := startPushing(t, p), make(chan []string)
		go func() { got <- x.push(t.Context(), "a", "b", "c") }()
		synctest.Wait()
		return x, got
	}
	synctest.Test(t, func(t *testing.T) {
		x, got := start(t)
		x.plan.Drain()
		x.want(<-got, "delivered", "delivered", "returned: it was not read: the pipeline reads no more")
		x.ends(2)
		x.want(x.push(t.Context(), "late"), "returned: it was not read: the pipeline reads no more")
	})
	synctest.Test(t, func(t *testing.T) {
		x, got := start(t)
		x.stop()
		x.kill()
		for _, fate := range <-got { // the kill ends writes, so there may be room for the third
			if !strings.HasPrefix(fate, "returned: ") {
				t.Errorf("after a kill: %s", fate)
			}
		}
		if rep := <-x.done; !rep.Stats.Roots.Balanced() || rep.Stats.Roots.InFlight != 0 {
			t.Errorf("roots %+v", rep.Stats.Roots)
		}
	})
}

func TestAPushContinuesInThePlanOfAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, dst := &Sink{Delay: 20 * time.Second}, &Sink{}
		p := pipe(unread(), stuck)
		p.Engine.MaxInFlight.Messages = 2
		x := startPushing(t, p)
		got := make(chan []string)
		go func() { got <- x.push(t.Context(), "a", "b", "c") }()
		synctest.Wait()
		next := replaced(t, pipe(unread(), dst, Step("late", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == "b" {
				return errors.New("the new plan does not like it")
			}
			return nil
		})), x.plan)
		x.plan.Replace(next)
		first := <-x.done
		stop, cancel := context.WithCancel(t.Context())
		done := make(chan runtime.Report)
		go func() { done <- next.Run(stop, context.Background()) }()
		x.want(<-got, "delivered", "returned: the new plan does not like it",
			"returned: it was not read: the pipeline is being reloaded")
		cancel()
		rep := <-done
		if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 || c.Received != 2 || first.Err != nil || rep.Err != nil {
			t.Errorf("roots %+v, errors %v and %v", c, first.Err, rep.Err)
		}
		wantSame(t, dst.Bodies(), []string{"a"})
	})
}

func TestNothingIsPushedWhereNothingIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := Build(t, pipe(unread(), &Sink{}))
		if _, err := plan.Push(t.Context(), "in", Batch("a")); err == nil ||
			err.Error() != "pipeline test is starting, and reads nothing yet" {
			t.Errorf("before the start: %v", err)
		}
		ended := &Source{Payloads: []string{"x"}}
		dst := &Sink{Delay: time.Minute}
		p := pipe(ended, dst)
		p.Outputs = Named("out", engine.OutputSpec{Use: dst.Output().Use, Timeout: time.Hour})
		x := startPushing(t, p)
		x.want(x.push(t.Context(), "a"), "returned: it was not read: the pipeline reads no more")
		if _, err := x.plan.Push(t.Context(), "web", Batch("a")); err == nil || err.Error() != `pipeline test has no input "web"` {
			t.Errorf("an unknown input: %v", err)
		}
		x.ends(1)
	})
}

func TestPushesKeepTheOrderOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var want, got []string
		dst := &Sink{Delay: time.Millisecond}
		p := pipe(unread(), dst)
		p.Engine.Workers = 4
		p.Engine.OrderBy = expr.MustCompile("k")
		x := startPushing(t, p)
		for round := range 5 {
			var all []string
			for i := range 300 {
				all = append(all, fmt.Sprintf(`{"k":%d,"n":%d}`, i%3, round*1000+i))
			}
			for _, fate := range x.push(t.Context(), all...) {
				if fate != "delivered" {
					t.Fatal(fate)
				}
			}
			for _, m := range all {
				if strings.HasPrefix(m, `{"k":1`) {
					want = append(want, m)
				}
			}
		}
		for _, m := range dst.Bodies() {
			if strings.HasPrefix(m, `{"k":1`) {
				got = append(got, m)
			}
		}
		if !slices.Equal(got, want) {
			t.Error("the messages of one key are out of order")
		}
		x.ends(1500)
	})
}

// Pushes from several goroutines, reloads and a drain at random times: each message ends once, and what is told is true.
func TestEveryPushedMessageEndsOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			dst := &Sink{Delay: time.Second, Fail: func(body string) error {
				if strings.HasSuffix(body, "7") {
					return engine.Errorf(engine.Rejected, "no")
				}
				return nil
			}}
			spec := func() *engine.Pipeline {
				p := pipe(unread(), dst)
				p.Engine.MaxInFlight.Messages = 1 + random.IntN(20)
				p.Inputs = Named("in", engine.InputSpec{Use: unread().Input().Use, Concurrency: 1 + random.IntN(2)})
				return p
			}
			var current atomic.Pointer[runtime.Plan]
			var mu sync.Mutex
			fates := map[string]int{}
			var pushers, runs sync.WaitGroup
			stop, cancel := context.WithCancel(context.Background())
			plan := Build(t, spec())
			run := func(plan *runtime.Plan) {
				current.Store(plan)
				runs.Go(func() {
					if c := plan.Run(stop, context.Background()).Stats.Roots; !c.Balanced() {
						t.Errorf("roots %+v", c)
					}
				})
			}
			run(plan)
			for who := range 3 {
				waits := time.Duration(random.IntN(8000)) * time.Millisecond
				pushers.Go(func() {
					for round := range 4 {
						time.Sleep(waits / 4)
						var all []string
						for i := range 20 {
							all = append(all, fmt.Sprintf("%d-%d-%d", who, round, i))
						}
						results, err := current.Load().Push(context.Background(), "in", Batch(all...))
						mu.Lock()
						for i, r := range results {
							if r == nil {
								t.Errorf("nobody knows what became of %s", all[i])
								continue
							}
							fates[r.Fate.String()]++
							if written := slices.Contains(dst.Bodies(), all[i]); written != (r.Fate == engine.Delivered) {
								t.Errorf("%s is %s, and written: %t (%v)", all[i], r.Fate, written, r.Err)
							}
						}
						mu.Unlock()
						if err != nil && results != nil {
							t.Error(err)
						}
					}
				})
			}
			for range 2 {
				time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
				next := replaced(t, spec(), current.Load())
				old := current.Load()
				old.Replace(next)
				runs.Wait() // as the process does
				run(next)
			}
			time.Sleep(time.Duration(random.IntN(20000)) * time.Millisecond)
			cancel()
			pushers.Wait()
			runs.Wait()
			if seed == 0 && fates["delivered"] == 0 {
				t.Errorf("fates %v", fates)
			}
		})
	}
}
