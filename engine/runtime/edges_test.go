package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Ref 0 always fails; every other one fails once.
func TestAcksHaveTriesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried, ok := map[uint64]int{}, map[uint64]bool{}
		s := &ackedBy{Source{Payloads: numbers(200), PerRead: 1, Takes: engine.TakesOne, Every: 100 * time.Millisecond},
			nil}
		var late time.Duration
		var at [200]atomic.Int64
		s.Prepare = func(i int, _ *engine.Message) { at[i].Store(time.Now().UnixNano()) }
		s.ack = &ackPtr{func(rs []engine.Result) (again []engine.Result, err error) {
			for _, r := range rs {
				if tried[r.Ref] == 0 {
					late = max(late, time.Since(time.Unix(0, at[r.Ref].Load())))
				}
				if tried[r.Ref]++; r.Ref == 0 || tried[r.Ref] == 1 {
					again = append(again, r)
				} else {
					ok[r.Ref] = true
				}
			}
			return again, nil
		}}
		p := pipe(&s.Source, &Sink{})
		p.Inputs = Named("in", s.spec())
		Run(t, p, nil)
		var lost []uint64
		for r := range uint64(200) {
			if r > 0 && !ok[r] {
				lost = append(lost, r)
			}
		}
		if len(lost) > 0 {
			t.Errorf("%d acks were given up after one try: %v", len(lost), lost)
		}
		if late > 10*time.Millisecond {
			t.Errorf("a fresh ack waited %v behind failing ones", late)
		}
	})
}

func TestAParkedFailureIsTheStepsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := Step("lookup", func(_ context.Context, m *engine.Message) error {
			resume := m.Park()
			time.AfterFunc(time.Second,
				func() { resume(func(*engine.Message) error { return errors.New("no answer") }) })
			return nil
		})
		src := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne}
		Run(t, pipe(src, &Sink{}, step), nil)
		if r := src.Results()["a"]; r.Err == nil || r.Err.Step != "lookup" || r.Err.Class != engine.Permanent ||
			r.Err.Attempt != 1 || r.Err.FirstFailed.IsZero() {
			t.Errorf("got %+v", r.Err)
		}
		src, dst := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne}, &Sink{}
		step.OnError.Then = "continue"
		Run(t, pipe(src, dst, step), nil)
		if !slices.Equal(dst.Bodies(), []string{"a"}) {
			t.Errorf("on_error: continue delivered %q", dst.Bodies())
		}
	})
}

func TestADeadLetterHandedOnIsDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne},
			&Sink{Fail: func(string) error { return errors.New("no") }}
		p := pipe(src, dst)
		link := outputFunc{false, func(_ context.Context, b *engine.Batch) error {
			for m := range b.All() {
				m.EndAs(engine.Delivered)
			}
			return nil
		}}
		p.Outputs = schema.MapOf(entry("out", dst.Output()), entry("dlq",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return link, nil })}))
		p.Engine.OnFailure.DeadLetter = "dlq"
		Run(t, p, nil)
		if got := src.Results()["a"].Fate; got != engine.DeadLettered {
			t.Errorf("the source was told %v", got)
		}
	})
}

type follower struct{ Source }

func (f *follower) Traits() engine.Traits {
	t := f.Source.Traits()
	t.Follows = "x"
	return t
}

func TestStopStopsFollowersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &follower{Source{Payloads: numbers(1000), PerRead: 1, Takes: engine.TakesOne,
			Every: 100 * time.Millisecond, Endless: true}}
		dst := &Sink{Fail: func(b string) error {
			if b == `{"n":3}` {
				return errors.New("poison")
			}
			return nil
		}}
		p := pipe(&s.Source, dst)
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return s, nil })})
		p.Engine.OnFailure.Then.Word = "stop"
		began := time.Now()
		Run(t, p, nil)
		if took := time.Since(began); took > time.Second || s.Taken() > 5 {
			t.Errorf("stop took %v and read %d messages", took, s.Taken())
		}
	})
}

// blocks reads 256 KiB blocks of 256 messages each.
type blocks struct{ n int }

func (s *blocks) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.n == 0 {
		return nil, engine.ErrEnd
	}
	if b.Room() < 256 {
		return nil, nil
	}
	s.n--
	block := make([]byte, 1<<18)
	for i := range 256 {
		m := b.Add(block[i<<10 : (i+1)<<10 : (i+1)<<10])
		m.Ref = uint64(i)
	}
	return nil, nil
}

func TestAFewKeptMessagesDoNotPinTheirBlocks(t *testing.T) {
	for _, slow := range []time.Duration{0, 2 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 150
				var before, ms goruntime.MemStats
				goruntime.GC()
				goruntime.ReadMemStats(&before)
				src := &blocks{n}
				hold := &Sink{Block: make(chan struct{})}
				p := pipe(&Source{}, hold, Step("sample", func(_ context.Context, m *engine.Message) error {
					time.Sleep(slow)
					if m.Ref != 77 {
						m.Drop()
					}
					return nil
				}))
				p.Engine.Workers = 1
				p.Engine.MaxInFlight.Messages = 100_000
				p.Engine.Timeout = time.Hour
				p.Inputs = Named("in",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
				done := make(chan runtime.Report, 1)
				plan := Build(t, p)
				go func() { done <- plan.Run(t.Context(), context.Background()) }()
				time.Sleep(3 * time.Minute)
				goruntime.GC()
				goruntime.ReadMemStats(&ms)
				grown := int64(ms.HeapAlloc) - int64(before.HeapAlloc)
				t.Log(grown>>20, plan.Stats().Pieces, src.n)
				if grown > 16<<20 {
					t.Errorf("%d MiB for %d messages of 1 KiB", grown>>20, n)
				}
				close(hold.Block)
				<-done
			})
		})
	}
}

func TestAMergeInLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, a, b, dlq := &Source{Payloads: []string{"a", "b"}, Takes: engine.TakesOne}, &Sink{}, &Sink{}, &Sink{}
		no := func(string) error { return errors.New("no") }
		a.Fail, b.Fail = no, no
		p := pipe(src, a, engine.StepSpec{Use: Processing(joiner{})})
		p.Engine.Workers = 1
		p.Outputs = schema.MapOf(entry("a", a.Output()), entry("b", b.Output()), entry("dlq", dlq.Output()))
		p.Batchers = Named("all", engine.BatcherSpec{Output: engine.Names{"a", "b"}})
		p.Engine.OnFailure.DeadLetter = "dlq"
		rep := Run(t, p, nil)
		t.Logf("dlq %q results %v pieces %+v", dlq.Bodies(), src.Results(), rep.Stats.Pieces)
		if len(dlq.Bodies()) != 4 && len(dlq.Bodies()) != 2 {
			t.Errorf("dead letters %q", dlq.Bodies())
		}
		if rep.Stats.Pieces.Ended[engine.Dropped]+rep.Stats.Pieces.Ended[engine.Returned] > 0 {
			t.Errorf("pieces %+v", rep.Stats.Pieces)
		}
	})
}

func lossy(t *testing.T, step procFunc) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"a", "b", "c"}, Takes: engine.TakesOne}, &Sink{}
		p := pipe(src, dst)
		b := batched(t, `{"size": 3}`, "out")
		b.Processors = engine.Steps{proc("odd", step)}
		p.Batchers = Named("b", b)
		kill, hard := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, hard)
		began := time.Now()
		rep := Build(t, p).Run(context.Background(), kill)
		if time.Since(began) >= time.Hour {
			t.Errorf("the run hangs: a message was lost")
		}
		if c := rep.Stats.Pieces; !c.Balanced() || c.InFlight != 0 {
			t.Errorf("pieces %+v", c)
		}
		t.Logf("%q %v", dst.Bodies(), src.Results())
	})
}

func TestAMergeWhoseIteratorPanicsLosesNothing(t *testing.T) {
	lossy(t, func(_ context.Context, b *engine.Batch) error {
		b.Merge(nil, func(yield func(*engine.Message) bool) {
			for m := range b.All() {
				yield(m)
				panic("oh")
			}
		})
		return nil
	})
}

func TestTheSameMessageTwiceInAMerge(t *testing.T) {
	lossy(t, func(_ context.Context, b *engine.Batch) error {
		all := slices.Collect(b.All())
		b.Merge([]byte("x"), slices.Values(append(all, all...)))
		return nil
	})
}

func TestTheSameMessageSplitTwice(t *testing.T) {
	parts := func(yield func([]byte, error) bool) { yield([]byte("p"), nil) }
	lossy(t, func(_ context.Context, b *engine.Batch) error {
		for m := range b.All() {
			b.Split(m, parts)
			b.Split(m, parts)
		}
		return nil
	})
}

func TestLinkedDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := make(chan []func(func(*engine.Message) error), 10)
		up := outputFunc{false, func(_ context.Context, b *engine.Batch) error {
			var all []func(func(*engine.Message) error)
			for m := range b.All() {
				all = append(all, m.Park())
			}
			link <- all
			return nil
		}}
		// the reading pipeline ends when the link is closed
		down := &linked{link: link}
		dst := &Sink{}
		srcA := &Source{Payloads: numbers(3), Takes: engine.TakesOne, Endless: true}
		pa := pipe(srcA, &Sink{})
		pa.Outputs = Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return up, nil })})
		pb := pipe(&Source{}, dst)
		pb.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return down, nil })})
		pb.Batchers = Named("b", batched(t, `{"size": 100, "timeout": "1h"}`, "out"))
		stop, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		a, b := Build(t, pa), Build(t, pb)
		wg.Go(func() {
			r := a.Run(stop, context.Background())
			close(link)
			if r.Code() != 0 {
				t.Errorf("upstream: code %d, handed back %d", r.Code(), r.HandedBack)
			}
		})
		wg.Go(func() { r := b.Run(stop, context.Background()); t.Log(r.Code()) })
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
	})
}

type linked struct {
	link chan []func(func(*engine.Message) error)
	out  []func(func(*engine.Message) error)
	mu   sync.Mutex
}

func (l *linked) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesOne, Follows: "x"}
}
func (l *linked) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	select {
	case all, ok := <-l.link:
		if !ok {
			return l, engine.ErrEnd
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, r := range all {
			m := b.Add([]byte("x"))
			m.Ref = uint64(len(l.out))
			l.out = append(l.out, r)
		}
	case <-ctx.Done():
	}
	return l, nil
}
func (l *linked) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	for _, r := range rs {
		l.mu.Lock()
		f := l.out[r.Ref]
		l.mu.Unlock()
		f(func(m *engine.Message) error { m.EndAs(r.Fate); return nil })
	}
	return nil, nil
}

func TestAckersPerReadDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ackedBy{Source: Source{Payloads: numbers(2000), PerRead: 1, Takes: engine.TakesOne,
			Every: time.Millisecond}}
		s.Prepare = func(i int, _ *engine.Message) {
			s.ack = &ackPtr{func([]engine.Result) ([]engine.Result, error) { return nil, nil }}
		}
		p := pipe(&s.Source, &Sink{})
		p.Inputs = Named("in", s.spec())
		go func() {
			time.Sleep(1900 * time.Millisecond)
			if n := goruntime.NumGoroutine(); n > 100 {
				t.Errorf("%d goroutines for connections that are long gone", n)
			}
		}()
		Run(t, p, nil)
	})
}

// A Read that returns after the run has ended: its messages are handed back.
type lateRead struct{ let chan struct{} }

func (l *lateRead) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	<-l.let
	b.Add([]byte("late"))
	return nil, nil
}

func TestALateReadIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lateRead{make(chan struct{})}
		out := &closing{close: func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}}
		p := pipe(&Source{}, &Sink{})
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return l, nil })})
		p.Outputs = Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
		p.Engine.Drain.Timeout = 10 * time.Second
		stop, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		time.AfterFunc(10500*time.Millisecond, func() { close(l.let) })
		began := time.Now()
		rep := Run(t, p, stop)
		t.Log(time.Since(began), rep.Err)
	})
}

func TestWriteThatMergesLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{"a", "b", "c"}, Takes: engine.TakesOne}
		p := pipe(src, &Sink{})
		out := outputFunc{false, func(_ context.Context, b *engine.Batch) error {
			b.Merge([]byte("x"), b.All())
			return nil
		}}
		p.Outputs = Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
		kill, hard := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, hard)
		began := time.Now()
		Build(t, p).Run(context.Background(), kill)
		if time.Since(began) >= time.Hour {
			t.Errorf("the run hangs: messages were lost")
		}
	})
}

func TestARepairIsNotSkippedBehindALargeSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"bad", "big"}, Takes: engine.TakesOne}, &Sink{}
		step := proc("split", func(_ context.Context, b *engine.Batch) error {
			for m := range b.All() {
				if string(m.Bytes()) == "bad" {
					m.Fail(errors.New("no"))
					continue
				}
				b.Split(m, func(yield func([]byte, error) bool) {
					for range 300 {
						if !yield([]byte("part"), nil) {
							return
						}
					}
				})
			}
			return nil
		})
		step.OnError.Steps = engine.Steps{Step("repair",
			func(_ context.Context, m *engine.Message) error { m.SetBytes([]byte("repaired")); return nil })}
		all := Step("mark", func(_ context.Context, m *engine.Message) error {
			m.SetBytes([]byte("!" + string(m.Bytes())))
			return nil
		})
		in := src.Input()
		p := pipe(src, dst)
		in.Processors = engine.Steps{step, all} // one run of both messages
		p.Inputs = Named("in", in)
		Run(t, p, nil)
		if got := dst.Bodies(); !slices.Contains(got, "!repaired") {
			t.Errorf("delivered %q first: neither repaired nor marked", got[0])
		}
	})
}

func TestAResultCarriesTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne},
			&Sink{Fail: func(string) error { return &engine.Error{Delay: time.Minute, Err: errors.New("later")} }}
		Run(t, pipe(src, dst), nil)
		if d := src.Results()["a"].Delay; d != time.Minute {
			t.Errorf("delay %v", d)
		}
	})
}

func TestADeadLetterThatFailsIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := func(string) error { return engine.Errorf(engine.Rejected, "no") }
		src, dst, dlq := &Source{Payloads: []string{"a"}}, &Sink{Fail: no}, &Sink{Fail: no}
		p := pipe(src, dst)
		p.Outputs = schema.MapOf(entry("out", dst.Output()), entry("dlq", dlq.Output()))
		p.Engine.OnFailure.DeadLetter = "dlq"
		rep := Run(t, p, nil)
		for _, f := range rep.Failures {
			if f.Fate == engine.DeadLettered {
				t.Errorf("reported as dead-lettered %d times, counted %d", f.Count,
					rep.Stats.Pieces.Ended[engine.DeadLettered])
			}
		}
	})
}
