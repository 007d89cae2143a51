package runtime_test

import (
	"context"
	"errors"
	"fmt"
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
)

type procFunc func(ctx context.Context, b *engine.Batch) error

func (f procFunc) Process(ctx context.Context, b *engine.Batch) error { return f(ctx, b) }

func proc(name string, f procFunc) engine.StepSpec {
	return engine.StepSpec{Name: name, Use: Processing(f)}
}

func TestOneReadFeedsAllLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: numbers(200), Every: time.Millisecond}, &Sink{}
		p := pipe(src, dst, Step("slow", func(context.Context, *engine.Message) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}))
		p.Engine.Workers = 4
		began := time.Now()
		Run(t, p, nil)
		if took := time.Since(began); took > 600*time.Millisecond {
			t.Errorf("200 messages of 10ms on 4 lanes took %v, want about 500ms", took)
		}
	})
}

func TestBatcherStepsRunBeforeEveryConcurrentWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: numbers(100)}, &Sink{Delay: time.Millisecond}
		p := pipe(src, dst)
		o := dst.Output()
		o.Concurrency = 4
		p.Outputs = Named("out", o)
		p.Batchers = Named("b", engine.BatcherSpec{Output: engine.Names{"out"}, Processors: engine.Steps{
			Step("mark",
				func(_ context.Context, m *engine.Message) error { m.SetBytes([]byte("marked")); return nil })}})
		Run(t, p, nil)
		n := 0
		for _, b := range dst.Bodies() {
			if b != "marked" {
				n++
			}
		}
		if n > 0 {
			t.Errorf("%d of %d messages were written without the batcher's step", n, len(dst.Bodies()))
		}
	})
}

// pairs merges messages in pairs, as a step that groups them does: it first collects all, and then merges.
func pairs(_ context.Context, b *engine.Batch) error {
	all := slices.Collect(b.All())
	for pair := range slices.Chunk(all, 2) {
		var body []string
		for _, m := range pair {
			body = append(body, string(m.Bytes()))
		}
		b.Merge([]byte(strings.Join(body, "+")), slices.Values(pair))
	}
	return nil
}

func TestAStepMayMergeSeveralGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"a", "b", "c", "d"}, Takes: engine.TakesOne}, &Sink{}
		p := pipe(src, dst)
		p.Engine.Workers = 1 // keeps the order of reading
		b := batched(t, `{"size": 4}`, "out")
		b.Processors = engine.Steps{proc("pairs", pairs)}
		p.Batchers = Named("b", b)
		Run(t, p, nil)
		if got := dst.Bodies(); !slices.Equal(got, []string{"a+b", "c+d"}) {
			t.Errorf("delivered %q", got)
		}
	})
}

func splitAt(sep string) procFunc {
	return func(_ context.Context, b *engine.Batch) error {
		for m := range b.All() {
			body := string(m.Bytes())
			b.Split(m, func(yield func([]byte, error) bool) {
				for p := range strings.SplitSeq(body, sep) {
					if !yield([]byte(p), nil) {
						return
					}
				}
			})
		}
		return nil
	}
}

func TestAMergeMaySplitAgain(t *testing.T) {
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprint(fail), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: []string{"a", "b", "c"}, Takes: engine.TakesOne}, &Sink{}
				if fail {
					dst.Fail = func(b string) error { return errors.New("no") }
				}
				p := pipe(src, dst)
				b := batched(t, `{"size": 3}`, "out")
				b.Processors = engine.Steps{{Use: Processing(joiner{})}, proc("split", splitAt("+"))}
				p.Batchers = Named("b", b)
				Run(t, p, nil)
				if len(src.Results()) != 3 {
					t.Errorf("the source was told of %d, want 3", len(src.Results()))
				}
			})
		})
	}
}

func TestNoKeyTwiceInOneWriteCountsMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{`{"k":1}`, `{"k":1}`, `{"k":1}`, `{"k":1}`}}
		dst := &Sink{}
		p := pipe(src, dst)
		p.Engine.OrderBy = expr.MustCompile("k")
		b := batched(t, `{"size": 4}`, "out")
		b.Processors = engine.Steps{proc("merge first two", func(_ context.Context, b *engine.Batch) error {
			all := slices.Collect(b.All())
			b.Merge([]byte("m"), slices.Values(all[:2]))
			return nil
		})}
		p.Batchers = Named("b", b)
		Run(t, p, nil)
		for _, w := range dst.Writes() {
			if len(w.Bodies) > 1 {
				t.Errorf("one write has key 1 %d times: %q", len(w.Bodies), w.Bodies)
			}
		}
	})
}

func TestAParkedMessageEndsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"x"}, Takes: engine.TakesOne}, &Sink{}
		p := pipe(src, dst, Step("wait", func(_ context.Context, m *engine.Message) error {
			resume := m.Park()
			time.AfterFunc(time.Second, func() { resume(nil) })
			return nil
		}), proc("split", func(_ context.Context, b *engine.Batch) error {
			for m := range b.All() {
				b.Split(m, func(yield func([]byte, error) bool) {
					for i := range 258 {
						if i == 257 {
							time.Sleep(time.Second)
						}
						if !yield(fmt.Appendf(nil, "%d", i), nil) {
							return
						}
					}
				})
			}
			return nil
		}), Step("drop the last", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) >= "256" && len(m.Bytes()) == 3 && string(m.Bytes()) < "258" {
				m.Drop()
			}
			return nil
		}))
		p.Batchers = Named("b", batched(t, `{"size": 1000, "timeout": "1h"}`, "out"))
		began := time.Now()
		Run(t, p, nil)
		t.Log(shapes(dst.Writes()), time.Since(began))
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %v: the batch waited for its timeout, not for the end", took)
		}
	})
}

func TestASplitInAnInputsStepsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pulled atomic.Int64
		src, dst := &Source{Payloads: []string{"x"}, Takes: engine.TakesOne}, &Sink{}
		in := src.Input()
		in.Processors = engine.Steps{proc("split", func(_ context.Context, b *engine.Batch) error {
			for m := range b.All() {
				b.Split(m, func(yield func([]byte, error) bool) {
					for range 50_000 {
						pulled.Add(1)
						if !yield([]byte("part"), nil) {
							return
						}
					}
				})
			}
			return nil
		})}
		hold := make(chan struct{})
		p := pipe(src, dst, Step("hold", func(context.Context, *engine.Message) error { <-hold; return nil }))
		p.Inputs = Named("in", in)
		p.Engine.MaxInFlight.Messages = 1000
		go func() {
			time.Sleep(time.Second)
			t.Logf("pulled %d", pulled.Load())
			if pulled.Load() > 2000 {
				t.Errorf("%d parts are under way with 1000 credits", pulled.Load())
			}
			close(hold)
		}()
		Run(t, p, nil)
	})
}

func TestASplitEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pulled atomic.Int64
		var over atomic.Bool
		src, dst := &Source{Payloads: []string{"x"}, Takes: engine.TakesOne, Endless: true},
			&Sink{Block: make(chan struct{})}
		p := pipe(src, dst, proc("split", func(_ context.Context, b *engine.Batch) error {
			for m := range b.All() {
				b.Split(m, func(yield func([]byte, error) bool) {
					for !over.Load() && pulled.Load() < 3_000_000 {
						pulled.Add(1)
						if !yield([]byte("part"), nil) {
							return
						}
					}
				})
			}
			return nil
		}))
		p.Engine.MaxInFlight.Messages = 1000
		stop, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		rep := Build(t, p).Run(stop, context.Background())
		n := pulled.Load()
		over.Store(true)
		if n > 5000 {
			t.Errorf("%d parts were made of one message, %+v", n, rep.Stats.Pieces)
		}
		synctest.Wait()
	})
}

// A step of a batch returns after the run has ended, and has split a message that was handed back meanwhile. Its root does not end
// twice, and loops that wait for its result end.
func TestAStepThatComesBackTooLateEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"x"}, Takes: engine.TakesOne, Endless: true}, &Sink{}
		p := pipe(src, dst)
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return &slowlyTold{src}, nil })})
		p.Batchers = Named("b", engine.BatcherSpec{Output: engine.Names{"out"}, Processors: engine.Steps{
			proc("late", func(_ context.Context, b *engine.Batch) error {
				time.Sleep(2900 * time.Millisecond) // while results are reported to the source, from 2.8 s on
				for m := range b.All() {
					b.Split(m, func(yield func([]byte, error) bool) { yield([]byte("part"), nil) })
				}
				return nil
			})}})
		p.Engine.Drain.Timeout = 2 * time.Second
		stop, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		rep := Run(t, p, stop)
		if got := rep.Stats.Roots.Ended[engine.Returned]; got != int64(src.Taken()) {
			t.Errorf("%d of %d messages were returned: %+v", got, src.Taken(), rep.Stats.Roots)
		}
		time.Sleep(time.Minute)
	})
}

// slowlyTold is a source whose Ack is slow.
type slowlyTold struct{ *Source }

func (s *slowlyTold) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := s.Source.Read(ctx, b)
	return s, err
}

func (s *slowlyTold) Ack(ctx context.Context, rs []engine.Result) ([]engine.Result, error) {
	time.Sleep(200 * time.Millisecond)
	return s.Source.Ack(ctx, rs)
}

type resumer struct {
	mu     sync.Mutex
	parked []func(func(*engine.Message) error)
}

func (r *resumer) Settle(context.Context, []uint64, []uint64) {
	r.mu.Lock()
	all := r.parked
	r.parked = nil
	r.mu.Unlock()
	for _, f := range all {
		f(nil)
	}
}

// As in a dedupe, the first message stakes its key, and a later one waits for its fate.
func TestASettlerMayResumeWhatWaited(t *testing.T) {
	s := &resumer{}
	src := &Source{Payloads: []string{"a", "a"}, Takes: engine.TakesOne, Endless: true}
	out := stubborn{make(chan struct{})}
	defer close(out.let)
	p := pipe(src, &Sink{}, Step("dedupe", func(_ context.Context, m *engine.Message) error {
		if m.Ref == 0 {
			m.Stake(s, 0)
			return nil
		}
		resume := m.Park()
		s.mu.Lock()
		s.parked = append(s.parked, resume)
		s.mu.Unlock()
		return nil
	}))
	p.Outputs = Named("out",
		engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
	drains(t, p, "Settle runs under the fence")
}

// drains runs p, stops it soon, and fails the test if the drain never ends.
func drains(t *testing.T, p *engine.Pipeline, wrong string) {
	t.Helper()
	p.Engine.Drain.Timeout = 500 * time.Millisecond
	stop, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	done := make(chan runtime.Report, 1)
	plan := Build(t, p)
	go func() { done <- plan.Run(stop, context.Background()) }()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		t.Fatalf("the drain never ends: %s", wrong)
	}
}

type slowSettler struct{}

func (slowSettler) Settle(ctx context.Context, _, _ []uint64) { <-ctx.Done() }

func TestASettlerThatHangsDoesNotHoldTheDrain(t *testing.T) {
	src, dst := &Source{Payloads: []string{"a", "b"}, Takes: engine.TakesOne, Endless: true}, &Sink{}
	p := pipe(src, dst, Step("stake", func(_ context.Context, m *engine.Message) error {
		if m.Ref == 1 {
			m.Park() // forever
			return nil
		}
		m.Stake(slowSettler{}, 0)
		return nil
	}))
	drains(t, p, "it waits for Settle")
}

type closing struct {
	Sink
	open, close func(ctx context.Context) error
}

func (c *closing) Open(ctx context.Context) error {
	if c.open != nil {
		return c.open(ctx)
	}
	return nil
}
func (c *closing) Close(ctx context.Context) error {
	if c.close != nil {
		return c.close(ctx)
	}
	return nil
}

func untilDone(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestCloseHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &closing{close: untilDone}
		p := pipe(&Source{Payloads: numbers(1)}, &Sink{})
		p.Outputs = Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
		kill, hard := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, hard)
		began := time.Now()
		Build(t, p).Run(context.Background(), kill)
		if took := time.Since(began); took >= time.Hour {
			t.Errorf("closing took %v", took)
		}
	})
}

func TestAStopEndsOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &closing{open: untilDone}
		p := pipe(&Source{Payloads: numbers(1)}, &Sink{})
		p.Outputs = Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
		stop, cancel := context.WithCancel(t.Context())
		kill, hard := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		time.AfterFunc(time.Hour, hard)
		began := time.Now()
		Build(t, p).Run(stop, kill)
		if took := time.Since(began); took >= time.Hour {
			t.Errorf("SIGTERM while connecting: took %v", took)
		}
	})
}

type stopPanics struct{ Source }

func (s *stopPanics) Stop(context.Context) error { panic("stop") }

func TestStopPanics(t *testing.T) {
	s := &stopPanics{Source{Payloads: numbers(1), Endless: true}}
	p := pipe(&s.Source, &Sink{})
	p.Inputs = Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return s, nil })})
	stop, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	Build(t, p).Run(stop, context.Background())
}

type settleFunc func(committed, rolledBack []uint64)

func (f settleFunc) Settle(_ context.Context, c, r []uint64) { f(c, r) }

func TestSettlerOfFunctions(t *testing.T) {
	f := settleFunc(func(_, _ []uint64) {})
	p := pipe(&Source{Payloads: numbers(3)}, &Sink{},
		Step("stake", func(_ context.Context, m *engine.Message) error { m.Stake(f, m.Ref); return nil }))
	Run(t, p, nil)
}

type ackFunc func(rs []engine.Result) ([]engine.Result, error)

func (f ackFunc) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) { return f(rs) }

type ackedBy struct {
	Source
	ack engine.Acker
}

func (s *ackedBy) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := s.Source.Read(ctx, b)
	return s.ack, err
}

func (s *ackedBy) spec() engine.InputSpec {
	return engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return s, nil })}
}

func TestAckerOfFunctions(t *testing.T) {
	s := &ackedBy{Source{Payloads: numbers(3), PerRead: 1, Takes: engine.TakesOne},
		ackFunc(func([]engine.Result) ([]engine.Result, error) { return nil, nil })}
	p := pipe(&s.Source, &Sink{})
	p.Inputs = Named("in", s.spec())
	Run(t, p, nil)
}

type ackPtr struct {
	f func(rs []engine.Result) ([]engine.Result, error)
}

func (f *ackPtr) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) { return f.f(rs) }
