package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/google/go-cmp/cmp"
)

func TestAMessageFromElsewhereIsAsItWasThere(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC)
	batch := &engine.Likeness{Batcher: "b", Trigger: engine.BySize, Size: 9, Window: &engine.Window{Start: at, Part: 1}}
	for _, want := range []engine.Provenance{
		{},
		{Input: "in", ReceivedAt: at, Attempt: 3},
		{BatchKey: `"k"`, Batch: batch},
		{Err: engine.Errorf(engine.Late, "late"), Batch: &engine.Likeness{}},
		{Vars: engine.Vars{}.With("x", 1)},
	} {
		b := engine.NewBatch(1)
		m := b.AddFrom([]byte("x"), want)
		if diff := cmp.Diff(want, m.Provenance(),
			cmp.Comparer(func(a, b *engine.Error) bool { return a == b }),
			cmp.Comparer(func(a, b engine.Vars) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if string(m.Bytes()) != "x" || m.Input() != want.Input || m.BatchKey() != want.BatchKey {
			t.Errorf("got %s", m.Bytes())
		}
	}
}

// apart is a step that counts how often it is opened and closed.
type apart struct {
	opens, closes int
	fail          error
}

func (a *apart) Open(context.Context) error  { a.opens++; return a.fail }
func (a *apart) Close(context.Context) error { a.closes++; return nil }
func (a *apart) Process(ctx context.Context, b *engine.Batch) error {
	for m := range b.All() {
		if until, ok := ctx.Deadline(); ok {
			m.SetBytes(fmt.Append(nil, time.Until(until)))
		}
	}
	return nil
}

func TestStepsRunApartFromAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, last := &apart{}, &apart{}
		steps := engine.Steps{{Use: Processing(first)}, {Use: Processing(last), Timeout: 3 * time.Second}}
		a, problems := runtime.BuildApart(steps, engine.Env{Shared: &engine.Shared{}}, false, 7*time.Second)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := Batch("x")
		if err := a.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			if got := string(m.Bytes()); got != "3s" {
				t.Errorf("the second step has %s", got)
			}
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first.opens != 1 || first.closes != 1 || last.opens != 1 || last.closes != 1 {
			t.Errorf("%+v, %+v", first, last)
		}
		a, _ = runtime.BuildApart(steps[:1], engine.Env{}, false, 7*time.Second)
		b = Batch("x")
		_ = a.Run(t.Context(), b)
		for m := range b.All() {
			if got := string(m.Bytes()); got != "7s" {
				t.Errorf("a step without a timeout has %s", got)
			}
		}
	})
}

func TestStepsApartThatDontOpenAreClosed(t *testing.T) {
	first, last := &apart{}, &apart{fail: errors.New("no")}
	a, problems := runtime.BuildApart(engine.Steps{{Use: Processing(first)}, {Use: Processing(last)}}, engine.Env{},
		true, time.Second)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if err := a.Open(t.Context()); !errors.Is(err, last.fail) {
		t.Error(err)
	}
	if err := a.Close(t.Context()); err != nil || first.closes != 1 || last.closes != 0 {
		t.Errorf("%v, %+v, %+v", err, first, last)
	}
}

// checks is a step that inspects inner steps, as a step does that runs them in another process.
type checks struct {
	inner engine.Steps
	types []string
	err   error
}

func (c *checks) plugin() engine.Plugin[engine.Processor] {
	return engine.Use(func(env engine.Env) (engine.Processor, error) {
		c.types, c.err = c.inner.Check(env)
		return engine.ProcessorFunc(func(context.Context, *engine.Message) error { return nil }), nil
	})
}

func TestCheckedStepsAreNotOpened(t *testing.T) {
	inside := &apart{}
	c := &checks{inner: engine.Steps{{Use: Processing(inside)}}}
	src, dst := &Source{Payloads: numbers(3), Takes: engine.TakesOne}, &Sink{}
	Run(t, pipe(src, dst, engine.StepSpec{Use: c.plugin()}), nil)
	if c.err != nil || len(c.types) != 1 || inside.opens != 0 || inside.closes != 0 {
		t.Errorf("%+v, %q, %v", inside, c.types, c.err)
	}
}

// patient is a step that may retry messages by itself.
type patient struct {
	is    bool
	tries atomic.Int32
	has   atomic.Int64 // time until the deadline
}

func (p *patient) Traits() engine.Traits { return engine.Traits{TriesItself: p.is} }
func (p *patient) Process(ctx context.Context, b *engine.Batch) error {
	p.tries.Add(1)
	if until, ok := ctx.Deadline(); ok {
		p.has.Store(int64(time.Until(until)))
	}
	return engine.Errorf(engine.Transient, "no")
}

func TestAStepWithItsOwnRetriesIsRetriedOnlyIfConfigured(t *testing.T) {
	for _, r := range []struct {
		name         string
		itself       bool
		retry        *engine.Retry
		timeout, has time.Duration
		tries        int32
	}{
		{"any step", false, nil, 0, 5 * time.Second, 3},
		{"one that tries itself", true, nil, 0, 24 * time.Hour, 1},
		{"with a retry of its own", true, &engine.Retry{MaxAttempts: 2}, 0, 24 * time.Hour, 2},
		{"with a timeout of its own", true, nil, time.Minute, time.Minute, 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &patient{is: r.itself}
				src, dst := &Source{Payloads: numbers(1), Takes: engine.TakesOne}, &Sink{}
				p := pipe(src, dst, engine.StepSpec{Use: Processing(x), Retry: r.retry, Timeout: r.timeout})
				p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 3}
				p.Engine.Timeout = 5 * time.Second
				Run(t, p, nil)
				if got := x.tries.Load(); got != r.tries {
					t.Errorf("%d tries, want %d", got, r.tries)
				}
				if got := time.Duration(x.has.Load()); got < r.has || r.has < 24*time.Hour && got != r.has {
					t.Errorf("it has %v, want %v", got, r.has)
				}
			})
		})
	}
}
