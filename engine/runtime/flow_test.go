package runtime_test

import (
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

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

func entry[V any](key string, v V) schema.Entry[V] { return schema.Entry[V]{Key: key, Value: v} }

// batched returns a batcher of the built-in type batch.
func batched(t *testing.T, config string, out ...string) engine.BatcherSpec {
	return engine.BatcherSpec{
		Use: engine.Use(func(engine.Env) (engine.Batcher, error) {
			return New(t, engine.Batchers, `{"batch": `+config+`}`), nil
		}),
		Output: out,
	}
}

func shapes(ws []Write) (all []string) {
	for _, w := range ws {
		all = append(all, fmt.Sprintf("%d %s", len(w.Bodies), w.Trigger))
	}
	return all
}

func TestBatchTriggersInAPipeline(t *testing.T) {
	tests := []struct {
		name   string
		config string
		n      int
		every  time.Duration
		want   []string
	}{
		{"size, and end for the rest", `{"size": 2, "timeout": "1h"}`, 5, 0, []string{"2 size", "2 size", "1 end"}},
		{"the end sends at once, not after the timeout", `{"size": 100, "timeout": "2s"}`, 3, 0, []string{"3 end"}},
		{"the timeout runs from the first message", `{"size": 100, "timeout": "1s"}`, 4, 400 * time.Millisecond,
			[]string{"3 timeout", "1 end"}},
		{"bytes", `{"size": 0, "bytes": 20, "timeout": "1h"}`, 4, 0, []string{"2 bytes", "2 end"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: numbers(tt.n), PerRead: 1, Every: tt.every}, &Sink{}
				p := pipe(src, dst)
				p.Engine.Workers = 1
				p.Batchers = Named("b", batched(t, tt.config, "out"))
				began := time.Now()
				Run(t, p, nil)
				if got := shapes(dst.Writes()); !slices.Equal(got, tt.want) {
					t.Errorf("batches %q, want %q", got, tt.want)
				}
				if took := time.Since(began); took > time.Duration(tt.n+1)*tt.every {
					t.Errorf("took %v of virtual time: something waited", took)
				}
			})
		})
	}
}

func TestDrainSendsHalfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		src, dst := &Source{Payloads: numbers(3), Takes: engine.TakesOne, Endless: true}, &Sink{}
		p := pipe(src, dst)
		p.Batchers = Named("b", batched(t, `{"size": 100, "timeout": "1h"}`, "out"))
		done := make(chan runtime.Report, 1)
		plan := Build(t, p)
		go func() { done <- plan.Run(stop, context.Background()) }()
		time.Sleep(time.Minute)
		if len(dst.Writes()) != 0 {
			t.Fatalf("written before the drain: %v", dst.Writes())
		}
		cancel()
		rep := <-done
		if got := shapes(dst.Writes()); !slices.Equal(got, []string{"3 drain"}) || rep.Code() != 0 {
			t.Errorf("batches %q, code %d", got, rep.Code())
		}
	})
}

func TestPressureFlushesOpenBatches(t *testing.T) {
	tests := []struct {
		name string
		max  func(*engine.EngineSpec)
	}{
		{"messages", func(e *engine.EngineSpec) { e.MaxInFlight.Messages = 50 }},
		{"bytes", func(e *engine.EngineSpec) { e.MaxInFlight.Bytes = 300 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: numbers(1000), Takes: engine.TakesOne, PerRead: 10}, &Sink{}
				p := pipe(src, dst)
				p.Batchers = Named("b", func() engine.BatcherSpec {
					b := batched(t, `{"size": 0, "timeout": "1h"}`, "out")
					b.Key = expr.MustCompile("n")
					return b
				}())
				tt.max(&p.Engine)
				var log Transcript
				began := time.Now()
				plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				if plan == nil {
					t.Fatal(problems)
				}
				rep := plan.Run(t.Context(), t.Context())
				wantSame(t, dst.Bodies(), src.Payloads)
				if time.Since(began) > time.Second || rep.Code() != 0 {
					t.Errorf("took %v, code %d", time.Since(began), rep.Code())
				}
				if got := dst.Writes()[0].Trigger; got != engine.ByPressure {
					t.Errorf("first trigger %s, want pressure", got)
				}
				cut := int64(0)
				for _, w := range dst.Writes() {
					if w.Trigger == engine.ByPressure {
						cut++
					}
				}
				want := []runtime.Early{{Place: "batcher b", Sent: int64(len(dst.Writes())), Cut: cut}}
				if !slices.Equal(rep.Early, want) {
					t.Errorf("reported %v, want %v", rep.Early, want)
				}
				if n := strings.Count(log.String(), "before they are complete"); n != 1 {
					t.Errorf("%d warnings, want one", n)
				}
			})
		})
	}
}

func TestASlowOutputBoundsWhatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		src, dst := &Source{Payloads: numbers(100000), Takes: engine.TakesOne}, &Sink{Block: make(chan struct{})}
		p := pipe(src, dst)
		p.Engine.MaxInFlight.Messages = 700
		plan := Build(t, p)
		done := make(chan runtime.Report, 1)
		go func() { done <- plan.Run(stop, context.Background()) }()
		synctest.Wait()
		got := src.Taken() // readers may pause before all credits are used, if enough messages wait
		if got > 700 || got < 500 {
			t.Errorf("read %d messages, want at most the 700 credits", got)
		}
		if n := plan.Stats().Roots.InFlight; n != int64(got) {
			t.Errorf("in flight %d, want %d", n, got)
		}
		close(dst.Block)
		cancel()
		<-done
	})
}

func TestOneSlowOutputDoesNotBlockTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		src := &Source{Payloads: numbers(1000), Takes: engine.TakesOne, Endless: true}
		slow, fast := &Sink{Block: make(chan struct{})}, &Sink{}
		p := pipe(src, fast)
		p.Outputs = schema.MapOf(entry("slow", slow.Output()), entry("fast", fast.Output()))
		p.Batchers = schema.MapOf(
			entry("a", engine.BatcherSpec{Match: expr.MustCond("n < 500"), Output: engine.Names{"slow"}}),
			entry("b", engine.BatcherSpec{Output: engine.Names{"fast"}}))
		plan := Build(t, p)
		done := make(chan runtime.Report, 1)
		go func() { done <- plan.Run(stop, context.Background()) }()
		synctest.Wait()
		if got := len(fast.Bodies()); got != 500 {
			t.Errorf("the fast output got %d messages, want 500", got)
		}
		close(slow.Block)
		cancel()
		<-done
	})
}

// The order that is guaranteed: per key, through lanes, batches and concurrent writes.
func TestEqualKeysKeepTheirOrder(t *testing.T) {
	const keys, each = 17, 60
	var payloads []string
	for i := range each {
		for k := range keys {
			payloads = append(payloads, fmt.Sprintf(`{"k":%d,"i":%d}`, k, i))
		}
	}
	shuffleWork := Step("work", func(_ context.Context, m *engine.Message) error {
		time.Sleep(time.Duration(m.Ref*7919%13) * time.Millisecond)
		return nil
	})
	tests := []struct {
		name    string
		batcher *engine.BatcherSpec
		ordered bool
	}{
		{"messages as they come", nil, true},
		{"messages as they come, an output that does not keep order in a write", nil, false},
		{"one batch", &engine.BatcherSpec{}, true},
		{"batches by another key", &engine.BatcherSpec{Key: expr.MustCompile("k % 3")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				under, seen := map[string]bool{}, map[string]int{}
				check := outputFunc{tt.ordered, func(ctx context.Context, b *engine.Batch) error {
					var mine []string
					mu.Lock()
					for m := range b.All() {
						var k, i int
						fmt.Sscanf(string(m.Bytes()), `{"k":%d,"i":%d}`, &k, &i)
						key := fmt.Sprint(k)
						if slices.Contains(mine, key) {
							if !tt.ordered {
								t.Errorf("key %s is twice in one write", key)
							}
						} else if under[key] {
							t.Errorf("key %s is in two writes at once", key)
						}
						if seen[key] != i {
							t.Errorf("key %s: got %d, want %d", key, i, seen[key])
						}
						seen[key], under[key] = i+1, true
						mine = append(mine, key)
					}
					mu.Unlock()
					time.Sleep(time.Duration(len(mine)%5) * time.Millisecond)
					mu.Lock()
					for _, k := range mine {
						delete(under, k)
					}
					mu.Unlock()
					return nil
				}}
				src := &Source{Payloads: payloads, Takes: engine.TakesOne, PerRead: 50}
				p := pipe(src, &Sink{}, shuffleWork)
				p.Outputs = Named("out", engine.OutputSpec{Concurrency: 4,
					Use: engine.Use(func(engine.Env) (engine.Output, error) { return check, nil })})
				p.Engine.Workers = 4
				p.Engine.OrderBy = expr.MustCompile("k")
				if tt.batcher != nil {
					b := batched(t, `{"size": 7, "timeout": "20ms"}`, "out")
					b.Key = tt.batcher.Key
					p.Batchers = Named("b", b)
				}
				rep := Run(t, p, nil)
				if got := ended(rep, engine.Delivered); got != keys*each {
					t.Errorf("delivered %d, want %d", got, keys*each)
				}
			})
		})
	}
}

type outputFunc struct {
	sequential bool
	write      func(context.Context, *engine.Batch) error
}

func (o outputFunc) Write(ctx context.Context, b *engine.Batch) error { return o.write(ctx, b) }
func (o outputFunc) Traits() engine.Traits                            { return engine.Traits{Sequential: o.sequential} }

func TestBatchesOfOneKeyNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under := map[string]bool{}
		most := 0
		out := outputFunc{true, func(_ context.Context, b *engine.Batch) error {
			var key string
			for m := range b.All() {
				key = m.BatchKey()
			}
			mu.Lock()
			if under[key] {
				t.Errorf("two batches of key %s at once", key)
			}
			under[key] = true
			most = max(most, len(under))
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			delete(under, key)
			mu.Unlock()
			return nil
		}}
		src := &Source{Payloads: numbers(40), Takes: engine.TakesOne}
		p := pipe(src, &Sink{})
		b := batched(t, `{"size": 2, "timeout": "1h"}`, "out")
		b.Key = expr.MustCompile("n % 2")
		p.Batchers = Named("b", b)
		p.Outputs = Named("out", engine.OutputSpec{Concurrency: 8,
			Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
		Run(t, p, nil)
		if most != 2 {
			t.Errorf("at most %d keys were written at once, want both", most)
		}
	})
}

func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{`{"v":1}`, `{"v":2}`, `{"v":3}`, `{"v":"x"}`}, Takes: engine.TakesOne}
		a, b := &Sink{}, &Sink{}
		p := pipe(src, a)
		p.Outputs = schema.MapOf(entry("a", a.Output()), entry("b", b.Output()))
		p.Batchers = schema.MapOf(
			entry("one", engine.BatcherSpec{Match: expr.MustCond("v == 1"), Continue: true, Output: engine.Names{"a"}}),
			entry("small", engine.BatcherSpec{Match: expr.MustCond("v <= 2"), Output: engine.Names{"b"}}))
		rep := Run(t, p, nil)
		if got := a.Bodies(); !slices.Equal(got, []string{`{"v":1}`}) {
			t.Errorf("a got %q", got)
		}
		if got := sorted(b.Bodies()); !slices.Equal(got, []string{`{"v":1}`, `{"v":2}`}) {
			t.Errorf("b got %q", got)
		}
		if r := src.Results()[`{"v":3}`]; r.Fate != engine.Returned || r.Err.Class != engine.Unrouted ||
			!strings.Contains(r.Err.Error(), "one, small") {
			t.Errorf("3 ended %+v %v, want unrouted, naming the batchers", r, r.Err)
		}
		if r := src.Results()[`{"v":"x"}`]; r.Fate != engine.Returned || r.Err.Class != engine.Expression {
			t.Errorf("x ended %+v %v, want class expression", r, r.Err)
		}
		if c := rep.Stats.Pieces; c.Made != 2 || c.Consumed != 1 {
			t.Errorf("pieces %+v: two copies of what matched `one`, one consumed", c)
		}
	})
}

func TestAListOfOutputsMustAllTakeTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{`{"v":1}`, `{"v":2}`}, Takes: engine.TakesOne}
		a, b := &Sink{}, &Sink{Fail: func(body string) error {
			if body == `{"v":2}` {
				return errors.New("no")
			}
			return nil
		}}
		p := pipe(src, a)
		p.Outputs = schema.MapOf(entry("a", a.Output()), entry("b", b.Output()))
		p.Batchers = Named("all", engine.BatcherSpec{Output: engine.Names{"a", "b"}})
		Run(t, p, nil)
		if src.Results()[`{"v":1}`].Fate != engine.Delivered || src.Results()[`{"v":2}`].Fate != engine.Returned {
			t.Errorf("results %+v", src.Results())
		}
		if len(src.Calls()) > 2 || len(a.Bodies()) != 2 || len(b.Bodies()) != 1 {
			t.Errorf("a %q, b %q", a.Bodies(), b.Bodies())
		}
	})
}

// joiner merges a batch into one message.
type joiner struct{}

func (joiner) Process(_ context.Context, b *engine.Batch) error {
	var all []string
	for m := range b.All() {
		all = append(all, string(m.Bytes()))
	}
	b.Merge([]byte(strings.Join(all, "+")), b.All())
	return nil
}

func TestMerge(t *testing.T) {
	tests := []struct {
		name      string
		fail      bool
		delivered []string
		dead      []string
		pieces    engine.Counts
	}{
		{"delivered: all its parts are", false, []string{"a+b+c"}, nil,
			engine.Counts{Received: 3, Made: 1, Consumed: 3}},
		{"failed: undone, each part fails by itself", true, nil, []string{"a", "b", "c"},
			engine.Counts{Received: 3, Made: 4, Consumed: 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst, dlq := &Source{Payloads: []string{"a", "b", "c"}, Takes: engine.TakesOne}, &Sink{}, &Sink{}
				if tt.fail {
					dst.Fail = func(string) error { return errors.New("no") }
				}
				p := pipe(src, dst)
				p.Engine.Workers = 1 // the order of the parts
				b := batched(t, `{"size": 3}`, "out")
				b.Processors = engine.Steps{{Use: Processing(joiner{})}}
				p.Batchers = Named("b", b)
				p.Outputs = schema.MapOf(entry("out", dst.Output()), entry("dlq", dlq.Output()))
				p.Engine.OnFailure.DeadLetter = "dlq"
				rep := Run(t, p, nil)
				if !slices.Equal(dst.Bodies(), tt.delivered) || !slices.Equal(sorted(dlq.Bodies()), tt.dead) {
					t.Errorf("delivered %q, dead %q", dst.Bodies(), dlq.Bodies())
				}
				if c := rep.Stats.Pieces; c.Made != tt.pieces.Made || c.Consumed != tt.pieces.Consumed {
					t.Errorf("pieces %+v, want %+v", c, tt.pieces)
				}
				want := engine.Delivered
				if tt.fail {
					want = engine.DeadLettered
				}
				for k, r := range src.Results() {
					if r.Fate != want {
						t.Errorf("%s ended %v, want %v", k, r.Fate, want)
					}
				}
				if len(src.Results()) != 3 {
					t.Errorf("told of %d", len(src.Results()))
				}
			})
		})
	}
}

func TestParkedMessagesContinueLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := Step("wait", func(_ context.Context, m *engine.Message) error {
			if m.Ref == 3 {
				return nil
			}
			resume := m.Park()
			bad := m.Ref == 2
			go func() {
				time.Sleep(time.Minute)
				resume(func(m *engine.Message) error {
					if bad {
						return errors.New("came to nothing")
					}
					m.SetBytes([]byte("later"))
					return nil
				})
			}()
			return nil
		})
		mark := Step("mark", func(_ context.Context, m *engine.Message) error {
			m.SetBytes([]byte(string(m.Bytes()) + "!"))
			return nil
		})
		src, dst := &Source{Payloads: []string{"a", "b", "c", "d"}, Takes: engine.TakesOne}, &Sink{}
		p := pipe(src, dst, waits, mark)
		waits.Timeout = time.Hour
		Run(t, p, nil)
		if got := dst.Bodies(); !slices.Equal(got, []string{"d!", "later!", "later!"}) {
			t.Errorf("delivered %q: nobody waits for parked messages", got)
		}
		if src.Results()["c"].Fate != engine.Returned {
			t.Errorf("c: %+v", src.Results()["c"])
		}
	})
}

type stakes struct {
	mu                    sync.Mutex
	committed, rolledBack []uint64
}

func (s *stakes) Settle(_ context.Context, committed, rolledBack []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = append(s.committed, committed...)
	s.rolledBack = append(s.rolledBack, rolledBack...)
}

func TestStakesLearnHowRootsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stakes{}
		src := &Source{Payloads: numbers(5), Takes: engine.TakesOne}
		dst := &Sink{Fail: func(b string) error {
			if b == `{"n":2}` {
				return errors.New("no")
			}
			return nil
		}}
		Run(t, pipe(src, dst, Step("stake", func(_ context.Context, m *engine.Message) error {
			m.Stake(s, m.Ref+100)
			if m.Ref == 1 {
				m.Drop()
			}
			return nil
		})), nil)
		slices.Sort(s.committed)
		if !slices.Equal(s.committed, []uint64{100, 101, 103, 104}) || !slices.Equal(s.rolledBack, []uint64{102}) {
			t.Errorf("committed %v, rolled back %v", s.committed, s.rolledBack)
		}
	})
}

func TestAStakeOnDeliveryIsLostWithADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dead := &stakes{}, &Sink{}
		src := &Source{Payloads: numbers(3), Takes: engine.TakesOne}
		p := pipe(src, &Sink{Fail: func(b string) error {
			if b == `{"n":1}` {
				return engine.Errorf(engine.Permanent, "no")
			}
			return nil
		}}, Step("stake", func(_ context.Context, m *engine.Message) error {
			m.Stake(s, m.Ref)
			m.StakeOnDelivery(s, m.Ref+10)
			return nil
		}))
		p.Outputs = schema.MapOf(p.Outputs.Entries()[0], entry("dead", dead.Output()))
		p.Engine.OnFailure.DeadLetter = "dead"
		Run(t, p, nil)
		slices.Sort(s.committed)
		if !slices.Equal(s.committed, []uint64{0, 1, 2, 10, 12}) || !slices.Equal(s.rolledBack, []uint64{11}) {
			t.Errorf("committed %v, rolled back %v", s.committed, s.rolledBack)
		}
	})
}

// flaky is an acker that fails each result once.
type flaky struct {
	Source
	mu    sync.Mutex
	tried map[uint64]int
}

func (f *flaky) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	a, err := f.Source.Read(ctx, b)
	if a != nil {
		a = f
	}
	return a, err
}

func (f *flaky) Ack(_ context.Context, rs []engine.Result) (again []engine.Result, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		if f.tried[r.Ref]++; f.tried[r.Ref] == 1 && r.Ref%2 == 0 {
			again = append(again, r)
			err = errors.New("throttled")
		}
	}
	return again, err
}

func TestAFailedAckIsTriedAgainAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &flaky{Source: Source{Payloads: numbers(6), Takes: engine.TakesOne}, tried: map[uint64]int{}}
		p := pipe(&src.Source, &Sink{})
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
		Run(t, p, nil)
		for ref, n := range src.tried {
			if want := 2 - int(ref%2); n != want {
				t.Errorf("ack of %d was sent %d times, want %d", ref, n, want)
			}
		}
	})
}

func TestInputsStepsRunInReadingOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		in := (&Source{Payloads: numbers(600), PerRead: 40}).Input()
		in.Processors = engine.Steps{Step("count", func(_ context.Context, m *engine.Message) error {
			m.SetBytes(fmt.Appendf(nil, "%d %s", n, m.Bytes())) // no lock: one goroutine
			n++
			return nil
		})}
		dst := &Sink{}
		p := pipe(&Source{}, dst)
		p.Inputs = Named("in", in)
		p.Engine.Workers = 4
		Run(t, p, nil)
		for _, body := range dst.Bodies() {
			i, doc, _ := strings.Cut(body, " ")
			if doc != fmt.Sprintf(`{"n":%s}`, i) {
				t.Fatalf("%q was read out of order", body)
			}
		}
	})
}

func TestSeveralInputsEndWhenAllHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, dst := &Source{Payloads: numbers(10)}, &Source{Payloads: numbers(10), Every: time.Second, PerRead: 1},
			&Sink{}
		p := pipe(a, dst)
		p.Inputs = schema.MapOf(entry("a", a.Input()), entry("b", b.Input()))
		rep := Run(t, p, nil)
		if ended(rep, engine.Delivered) != 20 {
			t.Errorf("delivered %d, want 20", ended(rep, engine.Delivered))
		}
	})
}
