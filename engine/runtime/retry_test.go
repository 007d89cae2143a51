package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// tries is an output that notes the time of each attempt. fail decides which attempts fail; n counts from 1.
type tries struct {
	fail  func(body string, n int) error
	write func(ctx context.Context, n int) error // if set, decides about whole writes instead

	mu     sync.Mutex
	writes int
	at     map[string][]time.Time
	took   []string
}

func (o *tries) Write(ctx context.Context, b *engine.Batch) error {
	o.mu.Lock()
	o.writes++
	n := o.writes
	o.mu.Unlock()
	if o.write != nil {
		if err := o.write(ctx, n); err != nil {
			o.note(b)
			return err
		}
	}
	o.note(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	for m := range b.All() {
		body := string(m.Bytes())
		if o.fail != nil {
			if err := o.fail(body, len(o.at[body])); err != nil {
				m.Fail(err)
				continue
			}
		}
		o.took = append(o.took, body)
	}
	return nil
}

func (o *tries) note(b *engine.Batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for m := range b.All() {
		if o.at == nil {
			o.at = map[string][]time.Time{}
		}
		o.at[string(m.Bytes())] = append(o.at[string(m.Bytes())], time.Now())
	}
}

func (o *tries) of(body string) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.at[body])
}

func (o *tries) bodies() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.took)
}

func (o *tries) output() engine.OutputSpec {
	return engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return o, nil }),
		Breaker: &engine.Breaker{}}
}

// trying makes a pipeline with this output and a retry policy, without a breaker.
func trying(src *Source, o *tries, r engine.Retry) *engine.Pipeline {
	p := pipe(src, &Sink{})
	p.Engine.OnFailure.Retry = &r
	p.Outputs = Named("out", o.output())
	return p
}

func gaps(at []time.Time) (all []time.Duration) {
	for i := 1; i < len(at); i++ {
		all = append(all, at[i].Sub(at[i-1]))
	}
	return all
}

var (
	errAgain = errors.New("not now")
	always   = func(string, int) error { return errAgain }
)

// events collects the events of a run.
type events struct {
	mu  sync.Mutex
	all []engine.Event
}

func (e *events) hook(x engine.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, x)
}

func (e *events) of(kind engine.EventKind) (all []engine.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.all {
		if x.Kind == kind {
			all = append(all, x)
		}
	}
	return all
}

func hooked(t *testing.T, p *engine.Pipeline) (*runtime.Plan, *events) {
	e := &events{}
	plan, problems := runtime.Build(p, runtime.Options{Hooks: []engine.Hook{e.hook}})
	if plan == nil {
		t.Fatal(problems)
	}
	return plan, e
}

func TestTheBackoffIsJitteredWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, out := &Source{Payloads: numbers(40), PerRead: 1, Every: 20 * time.Second, Takes: engine.TakesOne},
			&tries{fail: always}
		Run(t, trying(src, out, engine.Retry{MaxAttempts: 6, Backoff: 100 * time.Millisecond,
			MaxBackoff: 500 * time.Millisecond}), nil)
		most := []time.Duration{100, 200, 400, 500, 500}
		sums := make([]time.Duration, len(most))
		for _, body := range src.Payloads {
			all := gaps(out.of(body))
			if len(all) != len(most) {
				t.Fatalf("%s was tried %d times, want 6", body, len(all)+1)
			}
			for i, d := range all {
				if d <= 0 || d > most[i]*time.Millisecond {
					t.Errorf("wait %d of %s was %v, want up to %v", i+1, body, d, most[i]*time.Millisecond)
				}
				sums[i] += d
			}
		}
		for i, sum := range sums {
			mean := sum / time.Duration(len(src.Payloads))
			if whole := most[i] * time.Millisecond; mean < whole/4 || mean > whole*3/4 {
				t.Errorf("wait %d is %v in the mean, want about half of %v", i+1, mean, whole)
			}
		}
	})
}

func TestWhenAMessageIsTriedAgain(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name  string
		retry engine.Retry
		err   error
		waits []time.Duration
	}{
		{"one attempt is the first", engine.Retry{MaxAttempts: 1}, errAgain, nil},
		{"attempts count the first", engine.Retry{MaxAttempts: 3, Intervals: []time.Duration{s}}, errAgain,
			[]time.Duration{s, s}},
		{"intervals, of which the last repeats", engine.Retry{MaxAttempts: 5, Intervals: []time.Duration{s, 5 * s}},
			errAgain, []time.Duration{s, 5 * s, 5 * s, 5 * s}},
		{"max_age ends what has no limit", engine.Retry{MaxAge: 10 * s, Intervals: []time.Duration{4 * s}}, errAgain,
			[]time.Duration{4 * s, 4 * s}},
		{"a server's hint prolongs a wait", engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{s}},
			&engine.Error{Delay: 30 * s, Err: errAgain}, []time.Duration{30 * s}},
		{"a server's hint never shortens one", engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{s}},
			&engine.Error{Delay: s / 10, Err: errAgain}, []time.Duration{s}},
		{"a timeout is tried again", engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{s}},
			context.DeadlineExceeded, []time.Duration{s}},
		{"what was rejected is not", engine.Retry{MaxAttempts: 5}, engine.Errorf(engine.Rejected, "no"), nil},
		{"what is permanent is not", engine.Retry{MaxAttempts: 5}, engine.Errorf(engine.Permanent, "no"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, out := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne},
					&tries{fail: func(string, int) error { return tt.err }}
				Run(t, trying(src, out, tt.retry), nil)
				if got := gaps(out.of("a")); !slices.Equal(got, tt.waits) {
					t.Errorf("waited %v, want %v", got, tt.waits)
				}
				if r := src.Results()["a"]; r.Fate != engine.Returned || r.Err.Attempt != len(tt.waits)+1 {
					t.Errorf("ended %v after attempt %d, want returned after %d", r.Fate, r.Err.Attempt,
						len(tt.waits)+1)
				}
			})
		})
	}
}

func TestTheRetryBudgetOnlyDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(300), Takes: engine.TakesOne}
		out := &tries{fail: func(_ string, n int) error {
			if n == 1 {
				return errAgain
			}
			return nil
		}}
		p := trying(src, out, engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{time.Millisecond}})
		p.Batchers = Named("one", batched(t, `{"size": 1}`, "out")) // each attempt is a write
		began := time.Now()
		Run(t, p, nil)
		wantSame(t, out.bodies(), src.Payloads)
		if took := time.Since(began); took < 150*time.Second || took > 200*time.Second {
			t.Errorf("took %v; 100 writes are in the budget, 30 are earned, one a second is free", took)
		}
	})
}

func TestOnePoisonousMessageDelaysNoOther(t *testing.T) {
	const poison, n = `{"n":777}`, 24_000 // 256 messages are written in 5 ms, as is each retry of one
	run := func(t *testing.T, bad string) (took time.Duration, out *tries) {
		synctest.Test(t, func(t *testing.T) {
			src := &Source{Payloads: numbers(n), Takes: engine.TakesOne}
			out = &tries{}
			out.write = func(context.Context, int) error { time.Sleep(5 * time.Millisecond); return nil }
			out.fail = func(body string, _ int) error {
				if body == bad {
					return errAgain
				}
				return nil
			}
			began := time.Now()
			Run(t, trying(src, out, engine.Retry{MaxAttempts: 5, Backoff: 200 * time.Millisecond}), nil)
			for body, at := range out.at {
				if body != bad {
					took = max(took, at[len(at)-1].Sub(began))
				}
			}
		})
		return took, out
	}
	clean, _ := run(t, "")
	took, out := run(t, poison)
	if len(out.bodies()) != n-1 || float64(took) > 1.05*float64(clean) {
		t.Errorf("%d others delivered within %v, want %d within 1.05 × %v", len(out.bodies()), took, n-1, clean)
	}
	if n := len(out.of(poison)); n != 5 {
		t.Errorf("the poison was tried %d times, want 5", n)
	}
}

// prober is an output with a probe.
type prober struct {
	*tries
	probe func() error
}

func (p prober) Probe(context.Context) error { return p.probe() }

func TestABreakerOpensAndProbes(t *testing.T) {
	for _, probes := range []bool{false, true} {
		t.Run(fmt.Sprintf("with a probe %v", probes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				down := func() error {
					if time.Since(began) < time.Minute {
						return errAgain
					}
					return nil
				}
				asked := 0
				src := &Source{Payloads: numbers(100), PerRead: 1, Every: 100 * time.Millisecond,
					Takes: engine.TakesOne}
				out := &tries{write: func(context.Context, int) error { return down() }}
				p := trying(src, out, engine.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 20 * time.Millisecond})
				o := out.output()
				if probes {
					o.Use = engine.Use(func(engine.Env) (engine.Output, error) {
						return prober{out, func() error { asked++; return down() }}, nil
					})
				}
				o.Breaker = &engine.Breaker{Failures: 3, Backoff: 10 * time.Second, MaxBackoff: 10 * time.Second}
				p.Outputs = Named("out", o)
				var before, readBefore int
				time.AfterFunc(50*time.Second, func() {
					out.mu.Lock()
					defer out.mu.Unlock()
					before, readBefore = out.writes, src.Taken()
				})
				plan, seen := hooked(t, p)
				plan.Run(t.Context(), context.Background())
				wantSame(t, out.bodies(), src.Payloads)
				if lost, back := seen.of(engine.EventLost), seen.of(engine.EventConnected); len(lost) != 1 ||
					len(back) != 1 || lost[0].Name != "out" {
					t.Errorf("events: lost %v, connected %v; want one each", lost, back)
				}
				if readBefore > 20 {
					t.Errorf("%d messages were read for an output that does not work", readBefore)
				}
				switch {
				case probes && (before != 3 || asked < 3):
					t.Errorf("%d writes and %d probes while it was down, want 3 writes, and probes", before, asked)
				case !probes && (before < 5 || before > 40):
					t.Errorf("%d writes while it was down, want 3 and about one every 5s", before)
				}
			})
		})
	}
}

func TestReadingContinuesWhileAnotherOutputIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, good := &Source{Payloads: numbers(100), PerRead: 1, Every: 100 * time.Millisecond, Takes: engine.TakesOne},
			&Sink{}
		bad := &tries{fail: always}
		p := trying(src, bad, engine.Retry{MaxAttempts: 0, MaxAge: time.Minute, Backoff: 10 * time.Millisecond})
		o := bad.output()
		o.Breaker = &engine.Breaker{Failures: 1, Backoff: time.Second}
		p.Outputs = schema.MapOf(entry("bad", o), entry("good", good.Output()))
		p.Batchers = Named("all", engine.BatcherSpec{Output: engine.Names{"bad", "good"}})
		var within atomic.Int64
		time.AfterFunc(11*time.Second, func() { within.Store(int64(len(good.Bodies()))) })
		Run(t, p, nil)
		if n := within.Load(); n != 100 {
			t.Errorf("the other output had %d of its 100 messages after 11s, while one had failed", n)
		}
	})
}

func TestRefusedCredentialsHoldTheOutputAndDiscardNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		src := &Source{Payloads: numbers(50), PerRead: 1, Every: 10 * time.Millisecond, Takes: engine.TakesOne}
		out := &tries{}
		out.write = func(context.Context, int) error {
			if time.Since(began) < time.Hour {
				return engine.Errorf(engine.Auth, "who are you")
			}
			return nil
		}
		p := trying(src, out, engine.Retry{MaxAttempts: 2})
		p.Engine.OnFailure.Then.Word = "drop"
		plan, seen := hooked(t, p)
		rep := plan.Run(t.Context(), context.Background())
		wantSame(t, out.bodies(), src.Payloads)
		if rep.Stats.Roots.Ended[engine.Delivered] != 50 {
			t.Errorf("ended %v, want 50 delivered", rep.Stats.Roots.Ended)
		}
		if n := len(seen.of(engine.EventLost)); n != 1 {
			t.Errorf("%d lost events, want 1", n)
		}
		if tried := len(out.of(src.Payloads[0])); tried < 50 || tried > 1000 {
			t.Errorf("the first message was tried %d times in an hour, want a probe every 30s at the least", tried)
		}
	})
}

func TestADeadLetterIsTriedWithoutLimitUntilItIsRefusedForGood(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused %v", refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dlq := &tries{fail: func(_ string, n int) error {
					switch {
					case n <= 30:
						return errAgain
					case refused:
						return engine.Errorf(engine.Rejected, "never")
					}
					return nil
				}}
				src := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne}
				p := trying(src, &tries{fail: func(string, int) error { return engine.Errorf(engine.Rejected, "no") }},
					engine.Retry{MaxAttempts: 2, Backoff: time.Second})
				p.Outputs = schema.MapOf(append(p.Outputs.Entries(), entry("dlq", dlq.output()))...)
				p.Engine.OnFailure.DeadLetter = "dlq"
				Run(t, p, nil)
				want := engine.DeadLettered
				if refused {
					want = engine.Returned
				}
				if got := src.Results()["a"].Fate; got != want || len(dlq.of("a")) != 31 {
					t.Errorf("ended %v after %d tries, want %v after 31", got, len(dlq.of("a")), want)
				}
			})
		})
	}
}

// lives is an output whose first instances hang.
type lives struct {
	mu           sync.Mutex
	made, closed int
	hang         int // number of instances that hang
	let          chan struct{}
	out          *tries
	late         []string // messages of hung writes when they return
}

type life struct {
	of *lives
	n  int
}

func (l *lives) output() engine.OutputSpec {
	o := l.out.output()
	o.Timeout, o.Breaker = time.Second, &engine.Breaker{Backoff: time.Millisecond, MaxBackoff: time.Millisecond}
	o.Use = engine.Use(func(engine.Env) (engine.Output, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made++
		return &life{l, l.made}, nil
	})
	return o
}

func (l *life) Close(context.Context) error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.closed++
	return nil
}

func (l *life) Write(ctx context.Context, b *engine.Batch) error {
	if l.n > l.of.hang {
		return l.of.out.Write(ctx, b)
	}
	<-l.of.let
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	for m := range b.All() {
		l.of.late = append(l.of.late, string(m.Bytes()))
		m.Fail(errAgain)
	}
	return nil
}

func TestAWriteThatHangsIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lives{hang: 2, let: make(chan struct{}), out: &tries{}}
		src := &Source{Payloads: numbers(100), Takes: engine.TakesOne}
		p := trying(src, l.out, engine.Retry{MaxAttempts: 5, Backoff: time.Millisecond})
		p.Outputs = Named("out", l.output())
		began := time.Now()
		Run(t, p, nil)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v: two writes of a second each were left behind after 2s to 2.5s", took)
		}
		wantSame(t, l.out.bodies(), src.Payloads)
		close(l.let)
		time.Sleep(time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.late) == 0 || slices.Contains(l.late, "") {
			t.Errorf("the hung writes saw %.100q", l.late)
		}
		for _, body := range l.late {
			if !slices.Contains(src.Payloads, body) {
				t.Errorf("a hung write saw %q: its slab was used again", body)
			}
		}
		if l.made != 3 || l.closed != 3 {
			t.Errorf("%d instances were made and %d closed, want 3", l.made, l.closed)
		}
	})
}

func TestHungWritesAreBoundedAndADrainEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lives{hang: 1000, let: make(chan struct{}), out: &tries{}}
		src := &Source{Payloads: numbers(1000), Takes: engine.TakesOne, Endless: true}
		p := trying(src, l.out, engine.Retry{Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
		p.Outputs = Named("out", l.output())
		p.Engine.Drain.Timeout = 10 * time.Second
		stop, cancel := context.WithCancel(t.Context())
		var made int
		var drained time.Time
		time.AfterFunc(time.Hour, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			made, drained = l.made, time.Now()
			cancel()
		})
		rep := Build(t, p).Run(stop, context.Background())
		if took := time.Since(drained); took > 10*time.Second+time.Second/2 {
			t.Errorf("the drain took %v, want 10s", took)
		}
		if made > 6 {
			t.Errorf("%d writes hang in an hour, want 4 or 5", made)
		}
		if read := rep.Stats.Roots.Received; rep.Code() != 3 || rep.HandedBack != read || read == 0 {
			t.Errorf("code %d, %d of %d handed back; want 3 and all", rep.Code(), rep.HandedBack, read)
		}
		close(l.let)
		time.Sleep(time.Minute)
	})
}

// failing is an input that fails a number of times before each of its Reads.
type failing struct {
	Source
	fails          int
	opened, closed int
	how            func() error
}

func (f *failing) Open(context.Context) error  { f.opened++; return nil }
func (f *failing) Close(context.Context) error { f.closed++; return nil }

func (f *failing) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if f.fails > 0 {
		f.fails--
		return nil, f.how()
	}
	return f.Source.Read(ctx, b)
}

func TestAnInputThatFailsIsStartedAgain(t *testing.T) {
	tests := []struct {
		name        string
		fails, most int
		how         func() error
		read, lost  int
		code        int
	}{
		{"an error", 3, 0, func() error { return errAgain }, 10, 3, 0},
		{"a panic", 3, 0, func() error { panic("oh") }, 10, 3, 0},
		{"max_attempts gives up", 9, 3, func() error { return errAgain }, 0, 2, 1},
		{"a permanent error is the end", 9, 0, func() error { return engine.Errorf(engine.Permanent, "no") }, 0, 0, 1},
		{"gone is the end", 9, 0, func() error { return engine.ErrGone }, 0, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, dst := &failing{Source: Source{Payloads: numbers(10), Takes: engine.TakesOne}, fails: tt.fails,
					how: tt.how}, &Sink{}
				p := pipe(&in.Source, dst)
				p.Inputs = Named("in",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })})
				p.Engine.Restart.MaxAttempts = tt.most
				plan, seen := hooked(t, p)
				rep := plan.Run(t.Context(), context.Background())
				if len(dst.Bodies()) != tt.read || rep.Code() != tt.code {
					t.Errorf("delivered %d, code %d; want %d and %d", len(dst.Bodies()), rep.Code(), tt.read, tt.code)
				}
				if lost, back := len(seen.of(engine.EventLost)), len(seen.of(engine.EventConnected)); lost != tt.lost ||
					back != tt.lost {
					t.Errorf("%d lost events, %d connected; want %d of each", lost, back, tt.lost)
				}
				if in.opened != tt.lost+1 || in.closed != in.opened {
					t.Errorf("opened %d times, closed %d times; want %d", in.opened, in.closed, tt.lost+1)
				}
			})
		})
	}
}

func TestAcksThatPanicAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, told := 0, map[uint64]int{}
		s := &ackedBy{Source: Source{Payloads: numbers(20), Takes: engine.TakesOne}}
		s.ack = &ackPtr{func(rs []engine.Result) ([]engine.Result, error) {
			if n++; n <= 2 {
				panic("oh")
			}
			for _, r := range rs {
				told[r.Ref]++
			}
			return nil, nil
		}}
		p := pipe(&s.Source, &Sink{})
		p.Inputs = Named("in", s.spec())
		Run(t, p, nil)
		if len(told) != 20 {
			t.Errorf("the source was told of %d messages, want 20", len(told))
		}
	})
}

func TestAStepThatIsTriedAgainHoldsItsKeyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Takes: engine.TakesOne}, &Sink{}
		for i := range 30 {
			src.Payloads = append(src.Payloads, fmt.Sprintf(`{"k":%d,"n":%d}`, i%3, 10+i))
		}
		tried := 0
		p := pipe(src, dst, Step("flaky", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == src.Payloads[0] {
				if tried++; tried < 4 {
					return engine.Errorf(engine.Transient, "not yet")
				}
			}
			return nil
		}))
		p.Engine.OrderBy = expr.MustCompile("k")
		p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 4, Intervals: []time.Duration{time.Second}}
		began := time.Now()
		Run(t, p, nil)
		wantSame(t, dst.Bodies(), src.Payloads)
		var held []string
		for _, w := range dst.Writes() {
			for _, body := range w.Bodies {
				var k int
				_, _ = fmt.Sscanf(body, `{"k":%d`, &k)
				late := w.At.Sub(began) >= 3*time.Second
				if late != (k == 0) {
					t.Errorf("%s was written after %v", body, w.At.Sub(began))
				}
				if k == 0 {
					held = append(held, body)
				}
			}
		}
		if !slices.IsSorted(held) {
			t.Errorf("the held key was written as %q", held)
		}
	})
}

func TestADrainHandsBackWhatIsDueTooLate(t *testing.T) {
	for _, when := range []string{"waits already", "fails while draining"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Payloads: []string{"late", "soon"}, Takes: engine.TakesOne, Endless: true}
				out := &tries{fail: func(body string, n int) error {
					switch {
					case n > 1:
						return nil
					case body == "late":
						return &engine.Error{Delay: time.Hour, Err: errAgain}
					}
					return &engine.Error{Delay: 3 * time.Second, Err: errAgain}
				}}
				if when == "fails while draining" {
					out.write = func(context.Context, int) error { time.Sleep(2 * time.Second); return nil }
				}
				p := trying(src, out, engine.Retry{MaxAttempts: 3, Intervals: []time.Duration{time.Millisecond}})
				p.Engine.Drain.Timeout = 20 * time.Second
				stop, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				began := time.Now()
				rep := Run(t, p, stop)
				if took := time.Since(began); took > 9*time.Second {
					t.Errorf("took %v: it waited for a try that could not be", took)
				}
				if late, soon := src.Results()["late"], src.Results()["soon"]; late.Fate != engine.Returned ||
					soon.Fate != engine.Delivered {
					t.Errorf("late ended %v, soon %v; want returned and delivered", late.Fate, soon.Fate)
				}
				if rep.Code() != 3 || rep.HandedBack != 1 {
					t.Errorf("code %d, %d handed back; want 3 and 1", rep.Code(), rep.HandedBack)
				}
			})
		})
	}
}

func TestAFallbackGetsTheMessageAsTheFirstOutputFoundIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, second := &Source{Payloads: numbers(3), Takes: engine.TakesOne}, &Sink{}
		first := (&tries{fail: func(string, int) error { return engine.Errorf(engine.Rejected, "no") }}).output()
		first.Processors = engine.Steps{Step("edit", func(_ context.Context, m *engine.Message) error {
			m.SetBytes([]byte("edited"))
			m.Meta = m.Meta.With("edited", true)
			return nil
		})}
		use := engine.Use(func(engine.Env) (engine.Output, error) { return engine.Route{Fallback: true}, nil })
		use.Config = members{"first", "second"}
		p := pipe(src, second)
		p.Outputs = schema.MapOf(entry("out", engine.OutputSpec{Use: use}), entry("first", first),
			entry("second", second.Output()))
		Run(t, p, nil)
		wantSame(t, second.Bodies(), src.Payloads)
		for _, w := range second.Writes() {
			for _, meta := range w.Metas {
				if meta["edited"] != nil || meta["error_class"] != "rejected" {
					t.Errorf("metadata %v, want error_class and not what the first output's step has set", meta)
				}
			}
		}
	})
}

func TestStepsInheritDefaults(t *testing.T) {
	step := func(p *engine.Pipeline) *engine.StepSpec { return &p.Processors[0] }
	for _, tt := range []struct {
		name  string
		edit  func(p *engine.Pipeline)
		calls int
		took  time.Duration
	}{
		{"from defaults", func(*engine.Pipeline) {}, 3, 3 * time.Second},
		{"not what the step has", func(p *engine.Pipeline) {
			step(p).Timeout, step(p).Retry = 5*time.Second, &engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{0}}
		}, 2, 10 * time.Second},
		{"inside a block", func(p *engine.Pipeline) {
			block := engine.Block{Do: p.Processors}
			p.Processors = engine.Steps{{Use: engine.Use(func(engine.Env) (engine.Processor, error) { return block, nil })}}
		}, 3, 3 * time.Second},
		{"from engine without them", func(p *engine.Pipeline) { p.Defaults = engine.Defaults{} }, 1, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				p := pipe(&Source{Payloads: []string{"a"}, Takes: engine.TakesOne}, &Sink{},
					Step("hang", func(ctx context.Context, _ *engine.Message) error {
						calls++
						<-ctx.Done()
						return ctx.Err()
					}))
				p.Defaults.Processors = engine.StepDefaults{Timeout: time.Second,
					Retry: &engine.Retry{MaxAttempts: 3, Intervals: []time.Duration{0}}}
				tt.edit(p)
				began := time.Now()
				Run(t, p, nil)
				if took := time.Since(began).Truncate(time.Second); calls != tt.calls || took != tt.took {
					t.Errorf("%d calls in %v, want %d in %v", calls, took, tt.calls, tt.took)
				}
			})
		})
	}
}
