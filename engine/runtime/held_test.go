package runtime_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/google/go-cmp/cmp"
)

// lines is a source whose messages know their position, as those of a file do.
func lines(payloads ...string) *Source {
	file := engine.Meta{}.With("path", "a.log").With("secret", "data").WithIndex("line")
	return &Source{Payloads: payloads, PerRead: 1, Every: time.Second, Endless: true, Takes: engine.TakesOne,
		Prepare: func(i int, m *engine.Message) { m.Meta = file.At(i + 1) }}
}

func TestHeldMessagesAreShown(t *testing.T) {
	const second = time.Second
	down := func(body string) error {
		if strings.Contains(body, "bad") {
			return errors.New("down\nwith a stack")
		}
		return nil
	}
	every := func(d time.Duration) engine.EngineFailure {
		return engine.EngineFailure{Retry: &engine.Retry{Intervals: []time.Duration{d}}}
	}
	tests := []struct {
		name     string
		payloads []string
		edit     func(p *engine.Pipeline, dst *Sink)
		at       time.Duration
		want     *engine.Held
		oldest   string
		age      time.Duration
		waiting  int
	}{
		{name: "nothing", payloads: []string{`{"k":"a"}`}, edit: func(*engine.Pipeline, *Sink) {}, at: 5 * second},
		{
			name:     "a retry of an output, and what waits for its key",
			payloads: []string{`{"k":"z"}`, `{"k":"bad"}`, `{"k":"bad"}`, `{"k":"b"}`}, at: 10 * second,
			edit: func(p *engine.Pipeline, dst *Sink) {
				dst.Fail = down
				p.Engine.OrderBy, p.Engine.OnFailure = expr.MustCompile("k"), every(time.Minute)
			},
			want: &engine.Held{At: "input in, path a.log, line 2", For: "a retry of output out", Err: "down",
				Age: 8 * second, Due: 52 * second},
			oldest: "input in, path a.log, line 2", age: 8 * second, waiting: 2,
		},
		{
			name: "a retry of a step", payloads: []string{`{"k":"a"}`}, at: 4 * second,
			edit: func(p *engine.Pipeline, _ *Sink) {
				s := Step("check", func(context.Context, *engine.Message) error {
					return engine.Errorf(engine.Transient, "busy")
				})
				s.Retry = &engine.Retry{Intervals: []time.Duration{time.Minute}}
				p.Processors = engine.Steps{s}
			},
			want: &engine.Held{At: "input in, path a.log, line 1", For: "a retry of step check", Err: "busy",
				Age: 3 * second, Due: 57 * second},
			oldest: "input in, path a.log, line 1", age: 3 * second, waiting: 1,
		},
		{
			name: "a limit", payloads: []string{`{"k":"a"}`, `{"k":"b"}`}, at: 4 * second,
			edit: func(p *engine.Pipeline, _ *Sink) {
				p.Processors = engine.Steps{{Name: "slow",
					Use: engine.Use(func(env engine.Env) (engine.Processor, error) {
						return env.RateLimit(engine.RateLimitStep{RateLimit: engine.RateLimit{Messages: 1, Per: time.Hour}})
					})}}
			},
			want: &engine.Held{At: "input in, path a.log, line 2", For: "the limit of step slow", Age: 2 * second,
				Due: time.Hour - 3*second},
			oldest: "input in, path a.log, line 2", age: 2 * second, waiting: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dst := &Sink{}
				p := pipe(lines(tt.payloads...), dst)
				tt.edit(p, dst)
				p.Outputs = Named("out", dst.Output())
				plan := Build(t, p)
				stop, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { plan.Run(stop, context.Background()) })
				time.Sleep(tt.at)
				synctest.Wait()
				s := plan.Snapshot()
				if diff := cmp.Diff(tt.want, s.Held); diff != "" {
					t.Errorf("held (-want +got):\n%s", diff)
				}
				if s.OldestAt != tt.oldest || s.OldestUnsettled != tt.age || s.Waiting != tt.waiting {
					t.Errorf("oldest %q, %v old, %d waiting; want %q, %v, %d", s.OldestAt, s.OldestUnsettled, s.Waiting,
						tt.oldest, tt.age, tt.waiting)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

func TestQueuesAreMeasured(t *testing.T) {
	tests := []struct {
		name        string
		concurrency int
		edit        func(p *engine.Pipeline)
		writing     int // number of messages in a write
	}{
		{"one write of what is there", 1, func(*engine.Pipeline) {}, 1},
		{"batches of one key wait for each other", 2, func(p *engine.Pipeline) {
			b := batched(t, `{"size": 2, "timeout": "1h"}`, "out")
			b.Key = expr.MustCompile(`"same"`)
			p.Batchers = Named("b", b)
		}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dst := &Sink{Block: make(chan struct{})}
				src := &Source{Payloads: numbers(10), PerRead: 1, Every: time.Second, Endless: true} // of 7 bytes each
				p := pipe(src, dst)
				out := dst.Output()
				out.Concurrency, out.Timeout = engine.Concurrency(tt.concurrency), time.Hour
				p.Outputs = Named("out", out)
				tt.edit(p)
				plan := Build(t, p)
				stop, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { plan.Run(stop, context.Background()) })
				time.Sleep(20 * time.Second)
				synctest.Wait()
				out1 := plan.Snapshot().Outputs[0]
				if n := 10 - tt.writing; out1.Queued != n || out1.QueuedBytes != 7*n {
					t.Errorf("%d messages, %d bytes queued, want %d and %d", out1.Queued, out1.QueuedBytes, n, 7*n)
				}
				close(dst.Block)
				cancel()
				wg.Wait()
				if o := plan.Snapshot().Outputs[0]; o.Queued != 0 || o.QueuedBytes != 0 {
					t.Errorf("%d messages, %d bytes queued at the end", o.Queued, o.QueuedBytes)
				}
			})
		})
	}
}

func TestAnInputThatWaitsForRoomSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &Sink{Block: make(chan struct{})}
		p := pipe(&Source{Payloads: numbers(10), PerRead: 1, Every: time.Second, Endless: true}, dst)
		p.Engine.MaxInFlight.Messages = 3
		out := dst.Output()
		out.Timeout = time.Hour
		p.Outputs = Named("out", out)
		plan := Build(t, p)
		stop, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { plan.Run(stop, context.Background()) })
		for i, want := range []string{"reading", "waiting", "reading"} {
			time.Sleep([]time.Duration{1500, 8000, 1}[i] * time.Millisecond)
			synctest.Wait()
			if got := plan.Snapshot().Inputs[0].State; got != want {
				t.Errorf("the input is %s, want %s", got, want)
			}
			if want == "waiting" {
				close(dst.Block)
			}
		}
		cancel()
		wg.Wait()
	})
}
