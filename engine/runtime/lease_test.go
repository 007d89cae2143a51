package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
)

// lender is a source that leases its messages. It is its own Acker.
type lender struct {
	Source
	every time.Duration

	mu    sync.Mutex // guards the fields below
	asked [][]uint64
	at    []time.Time
	take  []uint64 // Refs to report as lost at the next call
	fail  error
}

func (l *lender) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := l.Source.Read(ctx, b)
	return l, err
}

func (l *lender) Renew(_ context.Context, refs []uint64) ([]uint64, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.at = append(l.asked, slices.Clone(refs)), append(l.at, time.Now())
	lost := l.take
	l.take = nil
	return lost, l.every, l.fail
}

func (l *lender) lose(refs ...uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take = refs
}

func (l *lender) calls() [][]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

func lent(l *lender, dst *Sink, steps ...engine.StepSpec) *engine.Pipeline {
	l.Takes = engine.TakesOne
	p := pipe(&l.Source, dst, steps...)
	p.Inputs = Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return l, nil })})
	return p
}

func TestLeasesAreRenewedWhileWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{Source: Source{Payloads: numbers(3)}, every: 10 * time.Second}
		began := time.Now()
		p := lent(l, &Sink{Delay: 25 * time.Second})
		p.Batchers = Named("b", batched(t, `{"size": 3}`, "out")) // one write
		Run(t, p, nil)
		var got [][]uint64
		for i, refs := range l.calls() {
			if l.at[i].After(began) {
				slices.Sort(refs)
				got = append(got, refs)
			}
		}
		if len(got) != 2 || !slices.Equal(got[0], []uint64{0, 1, 2}) {
			t.Errorf("asked for %v, want all three twice: after 10s and 20s", got)
		}
		if at := l.at[1].Sub(l.at[0]); at != 10*time.Second {
			t.Errorf("came again after %v, want 10s", at)
		}
	})
}

func TestAFailingRenewalIsTriedAgainAndHarmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{Source: Source{Payloads: numbers(2)}, fail: errors.New("throttled")}
		p := lent(l, &Sink{Delay: 10 * time.Second})
		p.Batchers = Named("b", batched(t, `{"size": 2}`, "out")) // one write
		rep := Run(t, p, nil)
		if n := len(l.calls()); n < 10 || n > 12 {
			t.Errorf("asked %d times in 10s, want about once a second", n)
		}
		if ended(rep, engine.Delivered) != 2 {
			t.Errorf("ends: %+v", rep.Stats.Roots)
		}
	})
}

func TestALostLeaseStopsADeliveryBeforeItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{Source: Source{Payloads: numbers(2)}, every: time.Second}
		dst := &Sink{}
		p := lent(l, dst, Step("slow", func(_ context.Context, m *engine.Message) error {
			if m.Ref == 1 {
				l.lose(1)
				time.Sleep(3 * time.Second)
			}
			return nil
		}))
		rep := Run(t, p, nil)
		wantSame(t, dst.Bodies(), []string{`{"n":0}`})
		res := l.Results()
		if _, told := res[`{"n":1}`]; told || res[`{"n":0}`].Fate != engine.Delivered {
			t.Errorf("the source was told %v, want nothing of the lost one", res)
		}
		if ended(rep, engine.Returned) != 1 || ended(rep, engine.Delivered) != 1 {
			t.Errorf("ends: %+v", rep.Stats.Roots)
		}
	})
}

func TestALostLeaseStopsWhatWaits(t *testing.T) {
	failing := errors.New("not yet")
	tests := []struct {
		name string
		edit func(p *engine.Pipeline, dst *Sink)
	}{
		{"for the next try of a write", func(p *engine.Pipeline, dst *Sink) {
			tries := 0
			dst.Fail = func(body string) error {
				if tries++; body == `{"n":1}` {
					return failing
				}
				return nil
			}
			p.Engine.OnFailure.Retry = &engine.Retry{Intervals: []time.Duration{5 * time.Second}}
		}},
		{"for the next try of a step, in order", func(p *engine.Pipeline, _ *Sink) {
			p.Engine.OrderBy = expr.MustCompile(`"one"`)
			p.Engine.OnFailure.Retry = &engine.Retry{Intervals: []time.Duration{5 * time.Second}}
			p.Processors = engine.Steps{Step("fails", func(_ context.Context, m *engine.Message) error {
				if m.Ref == 1 {
					return engine.WithClass(engine.Transient, failing)
				}
				return nil
			})}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lender{Source: Source{Payloads: numbers(3)}, every: time.Second}
				l.Prepare = func(i int, _ *engine.Message) {
					if i == 2 {
						time.AfterFunc(1500*time.Millisecond, func() { l.lose(1) })
					}
				}
				dst := &Sink{}
				p := lent(l, dst)
				tt.edit(p, dst)
				rep := Run(t, p, nil)
				wantSame(t, dst.Bodies(), []string{`{"n":0}`, `{"n":2}`})
				if _, told := l.Results()[`{"n":1}`]; told {
					t.Error("the source was told of the lost one")
				}
				if ended(rep, engine.Returned) != 1 || ended(rep, engine.Delivered) != 2 {
					t.Errorf("ends: %+v", rep.Stats.Roots)
				}
			})
		})
	}
}

func TestALostLeaseInAWriteIsNeverAcked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{Source: Source{Payloads: numbers(1)}, every: time.Second}
		time.AfterFunc(1500*time.Millisecond, func() { l.lose(0) })
		dst := &Sink{Delay: 5 * time.Second}
		rep := Run(t, lent(l, dst), nil)
		if len(l.Results()) != 0 || len(dst.Bodies()) != 1 || ended(rep, engine.Delivered) != 1 {
			t.Errorf("told %v, written %q, ends %+v", l.Results(), dst.Bodies(), rep.Stats.Roots)
		}
	})
}

func TestALeaseLostAfterTheEndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{Source: Source{Payloads: numbers(2), Endless: true}, every: time.Second}
		stop, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { l.lose(0, 1, 77) })
		time.AfterFunc(5*time.Second, cancel)
		rep := Run(t, lent(l, &Sink{}), stop)
		if len(l.Results()) != 2 || ended(rep, engine.Delivered) != 2 {
			t.Errorf("told %v, ends %+v", l.Results(), rep.Stats.Roots)
		}
	})
}

func TestAnIntervalBeyondWhatTheSourceCanWaitIsRefused(t *testing.T) {
	src, dst := &delaying{Source: Source{Takes: engine.TakesOne}, most: time.Hour}, &Sink{}
	p := pipe(&src.Source, dst)
	p.Inputs = Named("in",
		engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
	p.Engine.OnFailure.Retry = &engine.Retry{Intervals: []time.Duration{time.Minute, 2 * time.Hour}}
	plan, problems := runtime.Build(p, runtime.Options{})
	if plan != nil || len(problems) != 1 || problems[0].Code != "long-interval" {
		t.Errorf("got %v", problems)
	}
}

// orderly is a source whose messages have an order.
type orderly struct{ Source }

func (*orderly) Traits() engine.Traits { return engine.Traits{OrderBy: `meta("group")`} }

func TestAnOrderThatIsLostIsWarnedOf(t *testing.T) {
	for order, want := range map[string]bool{"": true, `meta("group")`: false, "nil": false} {
		src := &orderly{}
		p := pipe(&src.Source, &Sink{})
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
		if order != "" {
			p.Engine.OrderBy = expr.MustCompile(order)
		}
		plan, problems := runtime.Build(p, runtime.Options{})
		if warned := len(problems) == 1 && problems[0].Warning && problems[0].Code == "order-lost"; plan == nil ||
			warned != want {
			t.Errorf("order_by %q: %v", order, problems)
		}
	}
}

// delaying is a source that can redeliver a single message after a delay.
type delaying struct {
	Source
	most time.Duration
}

func (d *delaying) Traits() engine.Traits {
	t := d.Source.Traits()
	t.Delays = d.most
	return t
}
