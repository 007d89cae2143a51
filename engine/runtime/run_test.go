package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// pipe makes a simple pipeline: one source, some steps, one sink.
func pipe(src *Source, dst *Sink, steps ...engine.StepSpec) *engine.Pipeline {
	return &engine.Pipeline{
		Name: "test", Inputs: Named("in", src.Input()), Processors: steps, Outputs: Named("out", dst.Output()),
		Engine: engine.EngineSpec{Workers: 2, OnFailure: once},
	}
}

// once is a policy without retries.
var once = engine.EngineFailure{Retry: &engine.Retry{MaxAttempts: 1}}

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"n":%d}`, i)
	}
	return all
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func wantSame(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("got %d messages, want %d: %.200q … want %.200q", len(got), len(want), got, want)
	}
}

func ended(r runtime.Report, f engine.Fate) int64 { return r.Stats.Roots.Ended[f] }

func TestEveryMessageIsDeliveredAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(1000), Takes: engine.TakesOne, PerRead: 37}
		dst := &Sink{}
		rep := Run(t, pipe(src, dst), nil)
		wantSame(t, dst.Bodies(), src.Payloads)
		if got := len(src.Results()); got != 1000 {
			t.Errorf("the source was told of %d messages, want 1000", got)
		}
		for p, r := range src.Results() {
			if r.Fate != engine.Delivered {
				t.Errorf("%s ended %v, want delivered", p, r.Fate)
			}
		}
		if rep.Code() != 0 || ended(rep, engine.Delivered) != 1000 {
			t.Errorf("code %d, delivered %d; want 0 and 1000", rep.Code(), ended(rep, engine.Delivered))
		}
	})
}

func TestAStepThatFailsFailsOnlyItsMessage(t *testing.T) {
	boom := Step("boom", func(_ context.Context, m *engine.Message) error {
		if string(m.Bytes()) == `{"n":1}` {
			return errors.New("no good")
		}
		return nil
	})
	tests := []struct {
		name  string
		takes engine.TakesBack
		fate  engine.Fate
		code  int
	}{
		{"a source that takes one message back gets it", engine.TakesOne, engine.Returned, 1},
		{"a source that takes nothing back: dropped, reported, exit 1", engine.TakesNothing, engine.Dropped, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Payloads: numbers(3), Takes: tt.takes}
				dst := &Sink{}
				rep := Run(t, pipe(src, dst, boom), nil)
				wantSame(t, dst.Bodies(), []string{`{"n":0}`, `{"n":2}`})
				if got := ended(rep, tt.fate); got != 1 {
					t.Errorf("%v: got %d, want 1", tt.fate, got)
				}
				if rep.Code() != tt.code {
					t.Errorf("code %d, want %d", rep.Code(), tt.code)
				}
				f := rep.Failures
				if len(f) != 1 || f[0].Count != 1 || f[0].First.Place != "step boom" ||
					f[0].First.Message != "no good" || f[0].First.Sample != `{"n":1}` ||
					f[0].First.Class != engine.Permanent {
					t.Errorf("failures: %+v", f)
				}
			})
		})
	}
}

func TestAPanicInAStepFailsItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(4), Takes: engine.TakesOne, PerRead: 1}
		dst := &Sink{}
		rep := Run(t, pipe(src, dst, Step("boom", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == `{"n":2}` {
				panic("oh")
			}
			return nil
		})), nil)
		if r := src.Results()[`{"n":2}`]; r.Fate != engine.Returned || r.Err == nil || r.Err.Class != engine.Panicked {
			t.Errorf("got %+v, want returned with class panic", r)
		}
		if ended(rep, engine.Delivered)+ended(rep, engine.Returned) != 4 {
			t.Errorf("ends: %+v", rep.Stats.Roots)
		}
	})
}

func TestDeadLettersCarryPayloadMetadataAndError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(3), Takes: engine.TakesOne, Prepare: func(i int, m *engine.Message) {
			m.Meta = m.Meta.With("line", i+1)
		}}
		dst, dlq := &Sink{}, &Sink{}
		p := pipe(src, dst,
			Step("edit", func(_ context.Context, m *engine.Message) error { m.SetBytes([]byte("edited")); return nil }),
			Step("boom", func(_ context.Context, m *engine.Message) error {
				if m.Ref == 1 {
					return engine.Errorf(engine.Rejected, "not this one")
				}
				return nil
			}))
		p.Outputs = schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: dst.Output()},
			schema.Entry[engine.OutputSpec]{Key: "dlq", Value: dlq.Output()})
		p.Engine.OnFailure.DeadLetter = "dlq"
		rep := Run(t, p, nil)
		if got := dlq.Bodies(); !slices.Equal(got, []string{`{"n":1}`}) {
			t.Fatalf("dead letters: %q, want the payload as received", got)
		}
		meta := dlq.Writes()[0].Metas[0]
		for k, want := range map[string]any{"line": 2, "error_class": "rejected", "error_step": "boom",
			"error_message": "not this one", "error_attempt": 1} {
			if meta[k] != want {
				t.Errorf("metadata %s: got %v, want %v", k, meta[k], want)
			}
		}
		if _, ok := meta["error_first_failed"].(time.Time); !ok {
			t.Errorf("error_first_failed: %v", meta["error_first_failed"])
		}
		if src.Results()[`{"n":1}`].Fate != engine.DeadLettered || rep.Code() != 0 {
			t.Errorf("result %+v, code %d; want dead_lettered and 0", src.Results()[`{"n":1}`], rep.Code())
		}
	})
}

func TestAnOutputFailsMessagesSingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(10), Takes: engine.TakesOne}
		dst := &Sink{Fail: func(body string) error {
			if body == `{"n":4}` {
				return errors.New("refused")
			}
			return nil
		}}
		rep := Run(t, pipe(src, dst), nil)
		r := src.Results()[`{"n":4}`]
		if r.Fate != engine.Returned || r.Err.Output != "out" || r.Err.Class != engine.Transient {
			t.Errorf("got %+v, %+v", r, r.Err)
		}
		if ended(rep, engine.Delivered) != 9 {
			t.Errorf("delivered %d, want 9", ended(rep, engine.Delivered))
		}
	})
}

// splitter splits a payload at commas.
type splitter struct{}

func (splitter) Process(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		body := string(m.Bytes())
		b.Split(m, func(yield func([]byte, error) bool) {
			if body == "" {
				return
			}
			for p := range strings.SplitSeq(body, ",") {
				if p == "broken" {
					yield(nil, errors.New("can't read on"))
					return
				}
				if !yield([]byte(p), nil) {
					return
				}
			}
		})
	}
	return nil
}

func TestSplit(t *testing.T) {
	split := engine.StepSpec{Use: Processing(splitter{})}
	tests := []struct {
		name   string
		in     string
		want   []string
		fate   engine.Fate
		pieces engine.Counts
	}{
		{"into three", "a,b,c", []string{"a", "b", "c"}, engine.Delivered,
			engine.Counts{Received: 1, Made: 3, Consumed: 1}},
		{"into nothing is filtered", "", nil, engine.Filtered, engine.Counts{Received: 1}},
		{"an error after two parts fails the rest", "a,b,broken", []string{"a", "b"}, engine.Returned,
			engine.Counts{Received: 1, Made: 2}},
		{"into a thousand, in order", strings.Join(numbers(1000), "|"), nil, engine.Delivered,
			engine.Counts{Received: 1, Made: 1, Consumed: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: []string{tt.in}, Takes: engine.TakesOne}, &Sink{}
				rep := Run(t, pipe(src, dst, split), nil)
				if tt.want != nil && !slices.Equal(dst.Bodies(), tt.want) {
					t.Errorf("delivered %q, want %q", dst.Bodies(), tt.want)
				}
				if got := src.Results()[tt.in].Fate; got != tt.fate {
					t.Errorf("the root ended %v, want %v", got, tt.fate)
				}
				if c := rep.Stats.Pieces; c.Received != tt.pieces.Received || c.Made != tt.pieces.Made ||
					c.Consumed != tt.pieces.Consumed {
					t.Errorf("pieces %+v, want %+v", c, tt.pieces)
				}
			})
		})
	}
}

func TestASplitLargerThanAllCreditsKeepsOrderAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := numbers(5000)
		for i := range parts {
			parts[i] = fmt.Sprint(i)
		}
		src := &Source{Payloads: []string{"first", strings.Join(parts, ","), "last"}, Takes: engine.TakesOne}
		dst := &Sink{Delay: time.Millisecond}
		p := pipe(src, dst, engine.StepSpec{Use: Processing(splitter{})})
		p.Engine.Workers = 1
		p.Engine.MaxInFlight.Messages = 300
		rep := Run(t, p, nil)
		want := append(append([]string{"first"}, parts...), "last")
		if got := dst.Bodies(); !slices.Equal(got, want) {
			t.Errorf("got %d messages out of order or lost, want %d", len(got), len(want))
		}
		if rep.Stats.Pieces.Made != 5002 {
			t.Errorf("made %d, want 5002", rep.Stats.Pieces.Made)
		}
	})
}

func TestAPartThatFailsMakesItsRootReturnOnlyWhenAllHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{"a,b,c"}, Takes: engine.TakesOne}
		dst := &Sink{Fail: func(body string) error {
			if body == "b" {
				return errors.New("no")
			}
			return nil
		}}
		rep := Run(t, pipe(src, dst, engine.StepSpec{Use: Processing(splitter{})}), nil)
		if !slices.Equal(dst.Bodies(), []string{"a", "c"}) {
			t.Errorf("delivered %q, want a and c", dst.Bodies())
		}
		if len(src.Calls()) != 1 || src.Results()["a,b,c"].Fate != engine.Returned {
			t.Errorf("results %+v, want one: returned", src.Calls())
		}
		if e := rep.Stats.Pieces.Ended; e[engine.Delivered] != 2 || e[engine.Returned] != 1 {
			t.Errorf("pieces ended %v", e)
		}
	})
}

func TestDrainFinishesWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		src := &Source{Payloads: numbers(500), Takes: engine.TakesOne, Endless: true}
		dst := &Sink{Delay: time.Second}
		p := pipe(src, dst)
		done := make(chan runtime.Report, 1)
		plan := Build(t, p)
		go func() { done <- plan.Run(stop, context.Background()) }()
		time.Sleep(500 * time.Millisecond)
		cancel()
		rep := <-done
		wantSame(t, dst.Bodies(), src.Payloads)
		if rep.Code() != 0 || !rep.Drained {
			t.Errorf("code %d, drained %v; want 0, true", rep.Code(), rep.Drained)
		}
	})
}

func TestADrainThatTakesTooLongHandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		src := &Source{Payloads: numbers(500), Takes: engine.TakesOne, Endless: true}
		dst := &Sink{Block: make(chan struct{})}
		p := pipe(src, dst)
		p.Engine.Drain.Timeout = 10 * time.Second
		done := make(chan runtime.Report, 1)
		plan := Build(t, p)
		go func() { done <- plan.Run(stop, context.Background()) }()
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		rep := <-done
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the drain took %v, want at most 10s", took)
		}
		if rep.Code() != 3 || rep.HandedBack != 500 {
			t.Errorf("code %d, handed back %d; want 3 and 500", rep.Code(), rep.HandedBack)
		}
		for p, r := range src.Results() {
			if r.Fate != engine.Returned {
				t.Errorf("%s ended %v, want returned", p, r.Fate)
			}
		}
		if len(src.Results()) != 500 {
			t.Errorf("the source was told of %d, want 500", len(src.Results()))
		}
	})
}

// stubborn is an output that ignores its deadline.
type stubborn struct{ let chan struct{} }

func (s stubborn) Write(context.Context, *engine.Batch) error { <-s.let; return nil }

func TestAWriteThatNeverReturnsDoesNotHoldTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		src := &Source{Payloads: numbers(5), Takes: engine.TakesOne, Endless: true}
		out := stubborn{make(chan struct{})}
		p := pipe(src, &Sink{})
		p.Outputs = Named("out",
			engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
		done := make(chan runtime.Report, 1)
		plan := Build(t, p)
		go func() { done <- plan.Run(stop, context.Background()) }()
		time.Sleep(time.Second)
		cancel()
		rep := <-done
		if rep.Code() != 3 || rep.HandedBack != 5 {
			t.Errorf("code %d, handed back %d; want 3 and 5", rep.Code(), rep.HandedBack)
		}
		close(out.let) // the write returns too late: it must not be counted twice
		synctest.Wait()
		if got := plan.Stats().Roots; !got.Balanced() || got.Ended[engine.Delivered] != 0 {
			t.Errorf("after the late return: %+v", got)
		}
	})
}

func TestASecondSignalStopsHard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		kill, stopHard := context.WithCancel(t.Context())
		src := &Source{Payloads: numbers(5), Takes: engine.TakesOne, Endless: true}
		dst := &Sink{Block: make(chan struct{})}
		done := make(chan runtime.Report, 1)
		plan := Build(t, pipe(src, dst))
		go func() { done <- plan.Run(stop, kill) }()
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Second)
		began := time.Now()
		stopHard()
		rep := <-done
		if time.Since(began) > time.Second || rep.Code() != 3 {
			t.Errorf("took %v, code %d; want at once, 3", time.Since(began), rep.Code())
		}
	})
}

func TestStopReadsNoMoreAndReturnsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(100), Takes: engine.TakesOne, Endless: true, PerRead: 1, Every: time.Second}
		dst := &Sink{Fail: func(body string) error {
			if body == `{"n":3}` {
				return errors.New("poison")
			}
			return nil
		}}
		p := pipe(src, dst)
		p.Engine.OnFailure.Then.Word = "stop"
		rep := Run(t, p, nil)
		if rep.Code() != 1 || rep.Err == nil || !strings.Contains(rep.Err.Error(), "poison") {
			t.Errorf("code %d, err %v", rep.Code(), rep.Err)
		}
		if src.Taken() > 5 || src.Results()[`{"n":3}`].Fate != engine.Returned {
			t.Errorf("read %d messages; results %v", src.Taken(), src.Results())
		}
	})
}

func TestAnInputThatFailsEndsTheRunWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(10), Fail: engine.WithClass(engine.Permanent, errors.New("disk gone"))}
		dst := &Sink{}
		rep := Run(t, pipe(src, dst), nil)
		wantSame(t, dst.Bodies(), src.Payloads)
		if rep.Code() != 1 || rep.Err == nil || rep.Err.Error() != "input in: disk gone" {
			t.Errorf("code %d, err %v", rep.Code(), rep.Err)
		}
	})
}
