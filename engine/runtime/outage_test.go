package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// unreached is the error of an output that can't be reached.
func unreached(text string) error {
	return &engine.Error{Class: engine.Transient, Holds: true, Err: fmt.Errorf("%s", text)}
}

// outage is an output that is unreachable at first, then refuses all messages, and finally accepts them. It notes how many messages
// each refused write had.
type outage struct {
	Sink
	began        time.Time
	down, unwell time.Duration
	sizes        []int
}

func newOutage(down, unwell time.Duration, ordered bool) *outage {
	o := &outage{began: time.Now(), down: down, unwell: unwell}
	o.Ordered = ordered
	o.FailAll = func(bodies []string) error {
		switch at := time.Since(o.began); {
		case at < o.down:
			return unreached("refused")
		case at < o.down+o.unwell:
			o.sizes = append(o.sizes, len(bodies))
			return engine.Errorf(engine.Transient, "not yet")
		}
		return nil
	}
	return o
}

// TestAnOutageLosesNothing writes whole batches to an output that is unreachable, and then refuses messages for longer than the
// attempts of a message would last. A probe risks one message, and only that counts as an attempt.
func TestAnOutageLosesNothing(t *testing.T) {
	for _, tt := range []struct {
		name                string
		ordered, sequential bool
	}{{"in no order", false, false}, {"in the order of keys", true, false},
		{"by an output that keeps order", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: numbers(500), Takes: engine.TakesNothing, PerRead: 7,
					Every: 50 * time.Millisecond}, newOutage(time.Minute, 2*time.Minute, tt.sequential)
				p := &engine.Pipeline{Inputs: Named("in", src.Input()), Outputs: Named("out", dst.Output()),
					Batchers: Named("all", batched(t, `{"size": 100, "timeout": "1s"}`, "out"))}
				p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 3}
				if tt.ordered {
					p.Engine.OrderBy = expr.MustCompile("n % 50")
				}
				rep := Run(t, p, nil)
				if got := rep.Stats.Roots.Ended[engine.Delivered]; got != 500 || rep.Code() != 0 {
					t.Errorf("%d delivered, exit %d: %+v", got, rep.Code(), rep.Failures)
				}
				if n := len(dst.sizes); n == 0 || n > 30 || slices.Max(dst.sizes) > 1 {
					t.Errorf("probed with %v messages", dst.sizes)
				}
			})
		})
	}
}

// TestAHeldMessageMayGrowTooOld uses an output that is always unreachable.
func TestAHeldMessageMayGrowTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		src, dst, dead := &Source{Payloads: numbers(100), Takes: engine.TakesOne}, newOutage(time.Hour, 0, false),
			&Sink{}
		p := &engine.Pipeline{Inputs: Named("in", src.Input()), Outputs: schema.MapOf(entry("out", dst.Output()),
			entry("dead", dead.Output())), Batchers: Named("all", batched(t, `{"size": 100}`, "out"))}
		p.Engine.OnFailure.DeadLetter, p.Engine.OnFailure.Retry = "dead", &engine.Retry{MaxAge: 3 * time.Minute}
		rep := Run(t, p, nil)
		if got := rep.Stats.Roots.Ended[engine.DeadLettered]; got != 100 {
			t.Fatalf("%d dead letters", got)
		}
		for _, w := range dead.Writes() { // after that, the next probe may end the run, since its input is read again
			if took := w.At.Sub(began); took < 3*time.Minute || took > 3*time.Minute+time.Second {
				t.Errorf("took %v", took)
			}
		}
		if why := dead.Writes()[0].Metas[0]["error_message"]; why != "refused" {
			t.Errorf("the dead letters say %q", why)
		}
	})
}

// TestAFallbackPassesAHeldOutput uses two outputs, the first of which is unreachable.
func TestAFallbackPassesAHeldOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		src, first, second := &Source{Payloads: numbers(500), Takes: engine.TakesOne, PerRead: 100},
			newOutage(time.Hour, 0, false), &Sink{}
		both := engine.Use(func(engine.Env) (engine.Output, error) { return engine.Route{Fallback: true}, nil })
		both.Config = members{"first", "second"}
		p := &engine.Pipeline{
			Inputs: Named("in", src.Input()),
			Outputs: schema.MapOf(entry("both", engine.OutputSpec{Use: both}), entry("first", first.Output()),
				entry("second", second.Output())),
			Batchers: Named("all", batched(t, `{"size": 100}`, "both")),
		}
		Run(t, p, nil)
		if n, took := len(second.Bodies()), time.Since(began); n != 500 || took > 2*time.Second {
			t.Errorf("the second output has %d messages after %v", n, took)
		}
	})
}

// TestACallToAnUnreachableServerIsNotAnAttempt uses a step whose server is unreachable.
func TestACallToAnUnreachableServerIsNotAnAttempt(t *testing.T) {
	tests := []struct {
		name      string
		then      string
		err       error
		delivered int64
		calls     int // at most
	}{
		{"it waits until the server is back", "", unreached("refused"), 10, 10 * 60},
		{"on_error says what to do instead", "continue", unreached("refused"), 10, 10 * 2},
		{"what is refused is not tried again", "", engine.Errorf(engine.Auth, "401"), 0, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				step := Step("ask", func(context.Context, *engine.Message) error {
					if calls++; time.Since(began) < 10*time.Minute {
						return tt.err
					}
					return nil
				})
				step.Retry, step.OnError.Then = &engine.Retry{MaxAttempts: 2}, tt.then
				src := &Source{Payloads: numbers(10), Takes: engine.TakesOne}
				rep := Run(t, &engine.Pipeline{
					Inputs: Named("in", src.Input()), Outputs: Named("out", (&Sink{}).Output()),
					Processors: engine.Steps{step}, Engine: engine.EngineSpec{Workers: 1},
				}, nil)
				if got := rep.Stats.Roots.Ended[engine.Delivered]; got != tt.delivered || calls > tt.calls {
					t.Errorf("%d delivered after %d calls", got, calls)
				}
			})
		})
	}
}

// knocks is an output whose Probe always succeeds.
type knocks struct{ *outage }

func (knocks) Probe(context.Context) error { return nil }

// TestAProbeOpensForOneMessage uses a Probe that succeeds although writes fail.
func TestAProbeOpensForOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: numbers(300), Takes: engine.TakesOne},
			newOutage(time.Minute, 10*time.Minute, false)
		spec := engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return knocks{dst}, nil })}
		p := &engine.Pipeline{Inputs: Named("in", src.Input()), Outputs: Named("out", spec),
			Batchers: Named("all", batched(t, `{"size": 100}`, "out"))}
		p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 5}
		rep := Run(t, p, nil)
		if got := rep.Stats.Roots.Ended[engine.Delivered]; got != 300 {
			t.Errorf("%d delivered: %+v", got, rep.Failures)
		}
		if n := len(dst.sizes); n == 0 || n > 100 || slices.Max(dst.sizes) > 1 {
			t.Errorf("%d writes in ten minutes, with %v messages", n, dst.sizes)
		}
	})
}

// circle is a queue that redelivers returned messages at once.
type circle struct {
	Source
	mu   sync.Mutex
	back chan uint64
	last engine.Result
}

func (c *circle) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	select {
	case ref := <-c.back:
		b.Add([]byte(fmt.Sprint(ref))).Ref = ref
	case <-ctx.Done():
	}
	return c, nil
}

func (c *circle) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rs {
		if r.Fate == engine.Returned {
			c.last = r
			c.back <- r.Ref
		}
	}
	return nil, nil
}

// TestADeadLetterThatIsRefusedDoesNotGoInCircles uses dead letters that can't be written. Their messages return to the queue, which
// redelivers them.
func TestADeadLetterThatIsRefusedDoesNotGoInCircles(t *testing.T) {
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n, " messages"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &circle{Source: Source{Takes: engine.TakesOne}, back: make(chan uint64, 2*n)}
				for i := range n {
					src.back <- uint64(i)
				}
				refused := 0
				dead := &Sink{Fail: func(string) error {
					refused++
					return engine.Errorf(engine.Rejected, "no queue takes it")
				}}
				p := &engine.Pipeline{
					Inputs: Named("in",
						engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })}),
					Outputs: schema.MapOf(entry("out", (&Sink{}).Output()), entry("dead", dead.Output())),
					Processors: engine.Steps{Step("check", func(context.Context, *engine.Message) error {
						return engine.Errorf(engine.Permanent, "no id")
					})},
				}
				p.Engine.OnFailure.DeadLetter = "dead"
				p.Engine.Drain.Timeout = time.Hour // the next probe is in time, whatever delay was drawn
				stop, cancel := context.WithTimeout(t.Context(), 7*time.Second)
				defer cancel()
				Run(t, p, stop)
				if refused > n+30 { // the delays between two attempts are random
					t.Errorf("%d dead letters were refused in 7 seconds", refused)
				}
				if want := "no id; its dead letter can't be written: output dead: no queue takes it"; src.last.Err == nil ||
					!strings.HasPrefix(src.last.Err.Error(), want) && n == 1 {
					t.Errorf("returned because of %v, want %q", src.last.Err, want)
				}
			})
		})
	}
}

// TestAHeldDeadLetterShowsBothReasons uses dead letters whose output is unreachable.
func TestAHeldDeadLetterShowsBothReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := newOutage(time.Minute, 0, false)
		var log bytes.Buffer
		p := &engine.Pipeline{
			Inputs:  Named("in", (&Source{Payloads: numbers(3), Takes: engine.TakesOne}).Input()),
			Outputs: schema.MapOf(entry("out", (&Sink{}).Output()), entry("dead", dead.Output())),
			Processors: engine.Steps{Step("check",
				func(context.Context, *engine.Message) error { return engine.Errorf(engine.Permanent, "no id") })},
		}
		p.Engine.OnFailure.DeadLetter = "dead"
		plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if plan == nil {
			t.Fatal(problems)
		}
		rep := plan.Run(t.Context(), t.Context())
		if got := rep.Stats.Roots.Ended[engine.DeadLettered]; got != 3 {
			t.Errorf("%d dead letters", got)
		}
		if n := strings.Count(log.String(), `err="no id; its dead letter can't be written: refused"`); n != 1 {
			t.Errorf("%d lines with both reasons:\n%s", n, &log)
		}
	})
}

// TestALogNamesEachCauseOnce uses an output, or an input, whose error changes.
func TestALogNamesEachCauseOnce(t *testing.T) {
	for _, place := range []string{"output=out", "input=in"} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				cause := func() error {
					switch at := time.Since(began); {
					case at < time.Minute:
						return unreached(fmt.Sprintf("CONNECTION_FORCED at %d", at))
					case at < 2*time.Minute:
						return engine.Errorf(engine.Auth, "ACCESS_REFUSED")
					case at < 3*time.Minute:
						return unreached("CONNECTION_FORCED again")
					}
					return nil
				}
				src, dst := &troubled{Source: Source{Payloads: numbers(10), Takes: engine.TakesOne}}, &Sink{}
				if src.cause = cause; place == "output=out" {
					src.cause, dst.FailAll = func() error { return nil }, func([]string) error { return cause() }
				}
				var log bytes.Buffer
				p := &engine.Pipeline{Inputs: Named("in",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })}),
					Outputs: Named("out", dst.Output())}
				plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				if plan == nil {
					t.Fatal(problems)
				}
				plan.Run(t.Context(), t.Context())
				for _, cause := range []string{"CONNECTION_FORCED at", "ACCESS_REFUSED", "CONNECTION_FORCED again"} {
					n, most := 0, 1
					for line := range strings.Lines(log.String()) {
						if strings.Contains(line, place) && strings.Contains(line, cause) {
							n++
							if strings.HasSuffix(line, "attempt=10\n") { // which is logged in any case
								most = 2
							}
						}
					}
					if n < 1 || n > most {
						t.Errorf("%s: %d lines\n%s", cause, n, &log)
					}
				}
			})
		})
	}
}

// troubled is a source whose Reads fail with an error that may change.
type troubled struct {
	Source
	cause func() error
}

func (s *troubled) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if err := s.cause(); err != nil {
		return nil, err
	}
	return s.Source.Read(ctx, b)
}

// stalls is an output that reports that its system accepts no messages.
type stalls struct{ Sink }

func (*stalls) Stalled() string { return "low on memory" }

// TestAStateSaysWhatAnOutputRefuses takes snapshots while an output refuses all messages, and after that.
func TestAStateSaysWhatAnOutputRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &stalls{}
		dst.Fail = func(body string) error {
			if !strings.Contains(body, "20") {
				return engine.Errorf(engine.Rejected, "no")
			}
			return nil
		}
		src := &Source{Payloads: numbers(21), Takes: engine.TakesOne, PerRead: 1, Every: time.Second, Endless: true}
		plan := Build(t, &engine.Pipeline{Inputs: Named("in", src.Input()), Outputs: Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return dst, nil })})})
		stop, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { plan.Run(stop, t.Context()) })
		time.Sleep(15500 * time.Millisecond)
		if o := plan.Snapshot().Outputs[0]; o.Refused != 15 || o.Refusal != "no" || o.Stalled != "low on memory" {
			t.Errorf("got %d refused (%q), stalled %q", o.Refused, o.Refusal, o.Stalled)
		}
		time.Sleep(10 * time.Second)
		if o := plan.Snapshot().Outputs[0]; o.Refused != 0 {
			t.Errorf("got %d refused after one was taken", o.Refused)
		}
		cancel()
		wg.Wait()
	})
}

// If the output's own steps drop the message of a probe, that says nothing about the output. The next message is the probe.
func TestAProbeThatIsDroppedIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"1", "2", "3"}, PerRead: 1, Takes: engine.TakesOne}, &Sink{}
		failed := false
		dst.FailAll = func([]string) error {
			if !failed {
				failed = true
				return errors.New("away")
			}
			return nil
		}
		slow := Step("slow", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == "2" {
				time.Sleep(time.Millisecond) // it is read after the first has failed
			}
			return nil
		})
		p := pipe(src, dst, slow)
		out := dst.Output()
		out.Breaker, out.Retry = &engine.Breaker{Failures: 1, Backoff: time.Minute}, &engine.Retry{MaxAttempts: 1}
		out.Processors = engine.Steps{Step("drop", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == "2" {
				m.Drop()
			}
			return nil
		})}
		p.Outputs = Named("out", out)
		p.Engine.MaxInFlight.Messages = 2 // 3 is not read before 2 has ended
		stuck := time.AfterFunc(time.Hour, func() { panic("nothing probes the output any more") })
		defer stuck.Stop()
		Run(t, p, nil)
		if got := dst.Bodies(); len(got) != 1 || got[0] != "3" {
			t.Errorf("delivered %q, want the third", got)
		}
	})
}

// unreachable is an output whose writes and probes report that it can't be reached.
type unreachable struct{ *Sink }

func (unreachable) Probe(context.Context) error { return engine.Errorf(engine.Transient, "away") }

// A message for an output that is down waits no longer than max_age, even if it is never tried.
func TestMaxAgeEndsWhatWasNeverTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst, dead := &Source{Payloads: []string{"1", "2"}, PerRead: 1, Takes: engine.TakesOne}, &Sink{}, &Sink{}
		dst.FailAll = func([]string) error {
			time.Sleep(100 * time.Millisecond) // both are read by then: later, readers pause because the output is down
			return &engine.Error{Class: engine.Transient, Holds: true, Err: errors.New("away")}
		}
		slow := Step("slow", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == "2" {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		})
		p := pipe(src, dst, slow)
		out := engine.OutputSpec{
			Use:     engine.Use(func(engine.Env) (engine.Output, error) { return unreachable{dst}, nil }),
			Retry:   &engine.Retry{MaxAge: 10 * time.Second},
			Breaker: &engine.Breaker{Failures: 1, Backoff: time.Second, MaxBackoff: time.Second},
		}
		p.Outputs = schema.MapOf(entry("out", out), entry("dead", dead.Output()))
		p.Engine.OnFailure.DeadLetter = "dead"
		stuck := time.AfterFunc(time.Hour, func() { panic("it waits for ever") })
		defer stuck.Stop()
		began := time.Now()
		Run(t, p, nil)
		if got := dead.Bodies(); len(got) != 2 || time.Since(began) > 20*time.Second {
			t.Errorf("dead letters %q after %v, want both after ten seconds", got, time.Since(began))
		}
	})
}
