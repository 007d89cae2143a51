package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
)

// replaced builds a plan that replaces another one.
func replaced(t *testing.T, p *engine.Pipeline, old *runtime.Plan, same ...string) *runtime.Plan {
	t.Helper()
	plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.DiscardHandler), Instead: old,
		Same: func(kind, name string) bool {
			return slices.Contains(same, kind+" "+name)
		}})
	if plan == nil {
		t.Fatal(problems)
	}
	return plan
}

// opened counts how often its source is opened, closed and stopped.
type opened struct {
	*Source
	opens, closes, stops int
}

func (o *opened) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	return o.Source.Read(ctx, b)
}
func (o *opened) Open(context.Context) error  { o.opens++; return nil }
func (o *opened) Close(context.Context) error { o.closes++; return nil }
func (o *opened) Stop(context.Context) error  { o.stops++; return nil }

func (o *opened) spec() engine.InputSpec {
	return engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return o, nil })}
}

// reopened counts how often it is reopened.
type reopened struct {
	*Sink
	times int
}

func (r *reopened) Reopen(context.Context) { r.times++ }

func TestAReloadReopensWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(100), Takes: engine.TakesOne, PerRead: 5, Every: time.Millisecond}
		dst := &reopened{Sink: &Sink{}}
		make := func() *engine.Pipeline {
			p := pipe(src, dst.Sink)
			p.Outputs = Named("out", engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) {
				return dst, nil
			})})
			return p
		}
		old := Build(t, make())
		done := make2(old)
		time.Sleep(20 * time.Millisecond)
		if dst.times != 0 {
			t.Errorf("reopened %d times before the reload", dst.times)
		}
		next := replaced(t, make(), old, "input in", "output out")
		old.Replace(next)
		<-done
		if rep := next.Run(context.Background(), context.Background()); rep.Err != nil {
			t.Error(rep.Err)
		}
		if dst.times != 1 {
			t.Errorf("reopened %d times by one reload", dst.times)
		}
	})
}

func TestAReloadKeepsWhatIsUnchangedConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &opened{Source: &Source{Payloads: numbers(500), Takes: engine.TakesOne, PerRead: 5,
			Every: time.Millisecond}}
		dst := &Sink{}
		make := func(step string) *engine.Pipeline {
			p := pipe(src.Source, dst, Step("mark", func(_ context.Context, m *engine.Message) error {
				m.Meta = m.Meta.With("by", step)
				return nil
			}))
			p.Inputs = Named("in", src.spec())
			return p
		}
		old := Build(t, make("old"))
		done := make2(old)
		time.Sleep(20 * time.Millisecond)
		next := replaced(t, make("new"), old, "input in", "output out")
		old.Replace(next)
		first := <-done
		if first.Err != nil || first.HandedBack != 0 {
			t.Errorf("the old plan ended with %v, handed back %d", first.Err, first.HandedBack)
		}
		rep := next.Run(context.Background(), context.Background())
		wantSame(t, sorted(dst.Bodies()), sorted(src.Payloads))
		if c := rep.Stats.Roots; !c.Balanced() || c.Received != 500 || c.Ended[engine.Delivered] != 500 {
			t.Errorf("roots %+v", c)
		}
		if len(src.Results()) != 500 {
			t.Errorf("the source was told of %d", len(src.Results()))
		}
		if src.opens != 1 || src.closes != 1 || src.stops != 0 {
			t.Errorf("opened %d times, closed %d, stopped %d", src.opens, src.closes, src.stops)
		}
	})
}

// A plan that has ended before it was replaced has closed all of its plugins. The new plan builds its outputs again, and reopens its
// inputs.
func TestAReloadAfterTheEndOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &opened{Source: &Source{Payloads: numbers(20), Takes: engine.TakesOne, PerRead: 1, Every: time.Second}}
		var built []*closable
		p := pipe(src.Source, nil)
		p.Inputs = Named("in", src.spec())
		p.Outputs = Named("out", engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) {
			built = append(built, &closable{})
			return built[len(built)-1], nil
		})})
		old := Build(t, p)
		done := make2(old)
		time.Sleep(3500 * time.Millisecond)
		next := replaced(t, p, old, "input in", "output out")
		old.Drain()
		first := <-done
		old.Replace(next)
		if old.Replaced() {
			t.Error("the plan that had ended says that it was replaced")
		}
		rep := next.Run(context.Background(), context.Background())
		if n := first.Stats.Roots.Received; n == 0 || n == 20 {
			t.Errorf("the first plan has read %d", n)
		}
		if c := rep.Stats.Roots; c.Received != 20 || c.Ended[engine.Delivered] != 20 || len(rep.Failures) > 0 {
			t.Errorf("roots %+v, %+v", c, rep.Failures)
		}
		if src.opens != 2 || src.closes != 2 || len(built) != 2 {
			t.Errorf("the input was opened %d times and closed %d, the output built %d times", src.opens, src.closes,
				len(built))
		}
	})
}

// closable is an output that accepts no write once it is closed.
type closable struct{ closed bool }

func (c *closable) Write(context.Context, *engine.Batch) error {
	if c.closed {
		return engine.Errorf(engine.Rejected, "it is closed")
	}
	return nil
}
func (c *closable) Close(context.Context) error { c.closed = true; return nil }

// make2 runs a plan in another goroutine.
func make2(p *runtime.Plan) <-chan runtime.Report {
	done := make(chan runtime.Report, 1)
	go func() { done <- p.Run(context.Background(), context.Background()) }()
	return done
}

// Messages that an output has not written within five seconds continue in the new plan: unchanged, in order, before messages that are
// read then, and once. A message that failed in between is not lost either.
func TestAReloadCarriesOverWhatIsUnsettled(t *testing.T) {
	for _, takes := range []engine.TakesBack{engine.TakesOne, engine.TakesNothing} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &opened{Source: &Source{Payloads: numbers(60), Takes: takes, PerRead: 10, Every: time.Second}}
				stuck, dst := &Sink{Block: make(chan struct{})}, &Sink{Ordered: true}
				edit := Step("edit", func(_ context.Context, m *engine.Message) error {
					m.SetBytes(append([]byte("edited "), m.Bytes()...))
					return nil
				})
				p := pipe(src.Source, stuck, edit)
				p.Inputs = Named("in", src.spec())
				p.Engine.OrderBy = expr.MustCompile("1")
				old := Build(t, p)
				done := make2(old)
				time.Sleep(3500 * time.Millisecond)
				q := pipe(src.Source, dst, edit)
				q.Engine.OrderBy = expr.MustCompile("1")
				q.Inputs = Named("in", src.spec())
				next := replaced(t, q, old, "input in")
				began := time.Now()
				old.Replace(next)
				rep := <-done
				if took := time.Since(began); took > 9*time.Second {
					t.Errorf("the reload took %v", took)
				}
				if c := rep.Stats.Roots; c.InFlight != 30 {
					t.Errorf("left %+v", c)
				}
				rep = next.Run(context.Background(), context.Background())
				close(stuck.Block)
				var want []string
				for _, p := range src.Payloads {
					want = append(want, "edited "+p)
				}
				if got := dst.Bodies(); !slices.Equal(got, want) {
					t.Errorf("got %d: %q", len(got), got)
				}
				if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 || c.Received != 60 ||
					c.Ended[engine.Delivered] != 60 {
					t.Errorf("roots %+v", c)
				}
				if c := rep.Stats.Pieces; !c.Balanced() || c.InFlight != 0 {
					t.Errorf("pieces %+v", c)
				}
				if in := next.Snapshot().Inputs[0]; in.Received != 30 || in.Bytes != int64(len(strings.Join(src.Payloads[30:], ""))) {
					t.Errorf("after the reload, %d messages and %d bytes were read", in.Received, in.Bytes)
				}
				if takes == engine.TakesOne && len(src.Results()) != 60 {
					t.Errorf("the source was told of %d", len(src.Results()))
				}
				if src.opens != 1 || src.closes != 1 {
					t.Errorf("opened %d times, closed %d", src.opens, src.closes)
				}
			})
		})
	}
}

// A stop during a reload also ends the messages that the old plan has left.
func TestAStopDuringAReloadEndsWhatIsUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &opened{Source: &Source{Payloads: numbers(60), Takes: engine.TakesOne, PerRead: 10, Every: time.Second}}
		stuck, dst := &Sink{Block: make(chan struct{})}, &Sink{}
		defer close(stuck.Block)
		p := pipe(src.Source, stuck)
		p.Inputs = Named("in", src.spec())
		old := Build(t, p)
		done := make2(old)
		time.Sleep(3500 * time.Millisecond)
		q := pipe(src.Source, dst,
			engine.StepSpec{Use: engine.Use(func(engine.Env) (engine.Processor, error) { return connects{}, nil })})
		q.Inputs = Named("in", src.spec())
		next := replaced(t, q, old, "input in")
		old.Replace(next)
		<-done
		stop, end := context.WithCancel(context.Background())
		end()
		rep := next.Run(stop, context.Background())
		if c := rep.Stats.Roots; !c.Balanced() || c.Received != 30 || c.InFlight != 0 {
			t.Errorf("roots %+v", c)
		}
		if len(src.Results()) != 30 {
			t.Errorf("the source was told of %d", len(src.Results()))
		}
	})
}

// connects is a step whose Open is slow.
type connects struct{}

func (connects) Open(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

func (connects) Process(context.Context, *engine.Batch) error { return nil }

// If a reload replaces an input, the old one gets its unsettled messages back.
func TestAReloadHandsBackToAnInputThatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(10), Takes: engine.TakesOne, Endless: true}
		stuck := &Sink{Block: make(chan struct{})}
		defer close(stuck.Block)
		old := Build(t, pipe(src, stuck))
		done := make2(old)
		time.Sleep(time.Second)
		other, dst := &Source{Payloads: numbers(3)}, &Sink{}
		next := replaced(t, pipe(other, dst), old)
		old.Replace(next)
		rep := <-done
		if rep.HandedBack != 10 || len(src.Results()) != 10 {
			t.Errorf("handed back %d, told of %d", rep.HandedBack, len(src.Results()))
		}
		next.Run(context.Background(), context.Background())
		wantSame(t, dst.Bodies(), other.Payloads)
	})
}

// sour is a step whose Close may fail.
type sour struct {
	engine.Processor
	close error
}

func (s *sour) Close(context.Context) error { return s.close }

// Messages that were lost before a reload are still reported when the run ends.
func TestAReloadForgetsNoFailure(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails int64
		close error
	}{{"messages that failed", 10, nil}, {"a step that did not close well", 0, errors.New("writes are missing")}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: numbers(40), PerRead: 1, Every: time.Second}, &Sink{}
				steps := func(fails int64, err error) engine.StepSpec {
					n := int64(0)
					each := engine.ProcessorFunc(func(context.Context, *engine.Message) error {
						if n++; n <= fails {
							return errors.New("no")
						}
						return nil
					})
					return engine.StepSpec{Name: "sour", Use: Processing(&sour{each, err})}
				}
				old := Build(t, pipe(src, dst, steps(tt.fails, tt.close)))
				done := make2(old)
				time.Sleep(20500 * time.Millisecond)
				next := replaced(t, pipe(src, dst, steps(0, nil)), old, "input in", "output out")
				old.Replace(next)
				<-done
				rep := next.Run(context.Background(), context.Background())
				failed := int64(0)
				for _, f := range rep.Failures {
					failed += f.Count
				}
				if rep.Code() != 1 || failed != tt.fails || rep.Stats.Roots.Ended[engine.Dropped] != tt.fails ||
					!errors.Is(rep.Err, tt.close) {
					t.Errorf("code %d, %d failures, roots %+v, error %v", rep.Code(), failed, rep.Stats.Roots, rep.Err)
				}
			})
		})
	}
}
