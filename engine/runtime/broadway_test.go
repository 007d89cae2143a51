package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
	"go.uber.org/goleak"
)

// These tests assert the behaviour of Broadway's own tests, by their number in its table, translated to this engine.
func TestBroadway(t *testing.T) {
	isOdd := expr.MustCond("n % 2 == 1")
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"14, 25: two messages, size 2: one batch, one ack", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(2), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst)
			p.Batchers = Named("b", batched(t, `{"size": 2}`, "out"))
			Run(t, p, nil)
			if got := shapes(dst.Writes()); !slices.Equal(got, []string{"2 size"}) || len(src.Calls()) != 1 ||
				len(src.Calls()[0]) != 2 {
				t.Errorf("batches %q, acks %v", got, src.Calls())
			}
		}},
		{"27: a failed message that no batcher takes keeps its reason", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(1), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst,
				Step("boom", func(context.Context, *engine.Message) error { return errors.New("my reason") }))
			p.Batchers = Named("odd", engine.BatcherSpec{Match: isOdd, Output: engine.Names{"out"}})
			Run(t, p, nil)
			if r := src.Results()[`{"n":0}`]; r.Err == nil || r.Err.Error() != "my reason" {
				t.Errorf("got %+v", r)
			}
		}},
		{"28: the one that panics fails with its stack, the others go on", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(3), Takes: engine.TakesOne, PerRead: 1}, &Sink{}
			Run(t, pipe(src, dst, Step("boom", func(_ context.Context, m *engine.Message) error {
				if m.Ref == 1 {
					panic("raised")
				}
				return nil
			})), nil)
			r := src.Results()[`{"n":1}`]
			if r.Err == nil || !strings.Contains(r.Err.Error(), "raised") ||
				!strings.Contains(r.Err.Error(), "broadway_test.go") {
				t.Errorf("got %v, want the panic with its stack", r.Err)
			}
			wantSame(t, dst.Bodies(), []string{`{"n":0}`, `{"n":2}`})
		}},
		{"29: what is neither true nor false fails that message alone", func(t *testing.T) {
			src, dst := &Source{Payloads: []string{`{"ok":true}`, `{"ok":7}`}, Takes: engine.TakesOne}, &Sink{}
			when := Step("check", func(context.Context, *engine.Message) error { return nil })
			when.When = expr.MustCond("ok")
			Run(t, pipe(src, dst, when), nil)
			if r := src.Results()[`{"ok":7}`]; r.Fate != engine.Returned || r.Err.Class != engine.Expression {
				t.Errorf("got %+v", r)
			}
			wantSame(t, dst.Bodies(), []string{`{"ok":true}`})
		}},
		{"30: no batcher: that one fails, the known ones are named", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(2), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst)
			p.Batchers = Named("odd", engine.BatcherSpec{Match: isOdd, Output: engine.Names{"out"}})
			Run(t, p, nil)
			if r := src.Results()[`{"n":0}`]; r.Err == nil || r.Err.Class != engine.Unrouted ||
				!strings.Contains(r.Err.Error(), "odd") {
				t.Errorf("got %v", r.Err)
			}
			wantSame(t, dst.Bodies(), []string{`{"n":1}`})
		}},
		{"43: a batch step that drops one of two: both are told their end", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(2), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst)
			b := batched(t, `{"size": 2}`, "out")
			b.Processors = engine.Steps{Step("drop", func(_ context.Context, m *engine.Message) error {
				if m.Ref == 0 {
					m.Drop()
				}
				return nil
			})}
			p.Batchers = Named("b", b)
			Run(t, p, nil)
			if a, b := src.Results()[`{"n":0}`].Fate, src.Results()[`{"n":1}`].Fate; a != engine.Filtered ||
				b != engine.Delivered {
				t.Errorf("got %v and %v", a, b)
			}
		}},
		{"44: two connections, mixed ends: one ack each, every result its own", func(t *testing.T) {
			a, b := &Source{Payloads: numbers(2), Takes: engine.TakesOne},
				&Source{Payloads: numbers(2), Takes: engine.TakesOne}
			dst := &Sink{Fail: func(body string) error {
				if body == `{"n":0}` {
					return errors.New("no")
				}
				return nil
			}}
			p := pipe(a, dst)
			p.Inputs = schema.MapOf(entry("a", a.Input()), entry("b", b.Input()))
			p.Batchers = Named("b", batched(t, `{"size": 4}`, "out"))
			Run(t, p, nil)
			for _, s := range []*Source{a, b} {
				if len(s.Calls()) != 1 || s.Results()[`{"n":0}`].Fate != engine.Returned ||
					s.Results()[`{"n":1}`].Fate != engine.Delivered {
					t.Errorf("acks %+v", s.Calls())
				}
			}
		}},
		{"46: a batch step that fails as a whole fails the whole batch", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(2), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst)
			b := batched(t, `{"size": 2}`, "out")
			b.Processors = engine.Steps{{Name: "junk", Use: Processing(processorFunc(
				func(context.Context, *engine.Batch) error {
					return errors.New("junk")
				}))}}
			p.Batchers = Named("b", b)
			rep := Run(t, p, nil)
			if ended(rep, engine.Returned) != 2 || rep.Failures[0].First.Place != "step junk" {
				t.Errorf("report %+v", rep)
			}
		}},
		{"47: an ack that panics is logged and sent again; the next batch acks", func(t *testing.T) {
			src := &badAcker{Source: Source{Payloads: numbers(4), Takes: engine.TakesOne, PerRead: 2,
				Every: time.Second}}
			p := pipe(&src.Source, &Sink{})
			p.Inputs = Named("in",
				engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
			p.Batchers = Named("b", batched(t, `{"size": 2}`, "out"))
			Run(t, p, nil)
			if len(src.Results()) != 4 {
				t.Errorf("acked %d, want all", len(src.Results()))
			}
		}},
		{"48: a write that panics fails all it held", func(t *testing.T) {
			src := &Source{Payloads: numbers(3), Takes: engine.TakesOne}
			p := pipe(src, &Sink{})
			out := outputFunc{true, func(context.Context, *engine.Batch) error { panic("exit") }}
			p.Outputs = Named("out",
				engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })})
			rep := Run(t, p, nil)
			if ended(rep, engine.Returned) != 3 || rep.Failures[0].First.Class != engine.Panicked ||
				rep.Failures[0].First.Place != "output out" {
				t.Errorf("report %+v", rep)
			}
		}},
		{"60: batches of one batcher leave in order", func(t *testing.T) {
			src, dst := &Source{Payloads: numbers(12), Takes: engine.TakesOne, PerRead: 2},
				&Sink{Delay: time.Millisecond}
			p := pipe(src, dst)
			p.Engine.Workers = 1
			p.Batchers = Named("b", batched(t, `{"size": 2}`, "out"))
			Run(t, p, nil)
			if got := dst.Bodies(); !slices.Equal(got, numbers(12)) || len(dst.Writes()) != 6 {
				t.Errorf("got %q in %d batches", got, len(dst.Writes()))
			}
		}},
		{"62: the steps of every layer run, in turn", func(t *testing.T) {
			mark := func(s string) engine.StepSpec {
				return Step(s, func(_ context.Context, m *engine.Message) error {
					m.SetBytes([]byte(string(m.Bytes()) + s))
					return nil
				})
			}
			src, dst := &Source{Payloads: []string{"x"}}, &Sink{}
			p := pipe(src, dst, mark("2"))
			in, out := src.Input(), dst.Output()
			in.Processors, out.Processors = engine.Steps{mark("1")}, engine.Steps{mark("4")}
			b := batched(t, `{"size": 2}`, "out")
			b.Processors = engine.Steps{mark("3")}
			p.Inputs, p.Outputs, p.Batchers = Named("in", in), Named("out", out), Named("b", b)
			Run(t, p, nil)
			if got := dst.Bodies(); !slices.Equal(got, []string{"x1234"}) {
				t.Errorf("got %q", got)
			}
		}},
		{"76, 78: a stop sends half batches, acks them, and returns when all is gone", func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			stop, cancel := context.WithCancel(t.Context())
			src, dst := &Source{Payloads: numbers(1), Takes: engine.TakesOne, Endless: true}, &Sink{}
			p := pipe(src, dst)
			p.Batchers = Named("b", batched(t, `{"size": 2, "timeout": "1h"}`, "out"))
			time.AfterFunc(time.Second, cancel)
			Run(t, p, stop)
			if got := shapes(dst.Writes()); !slices.Equal(got, []string{"1 drain"}) ||
				src.Results()[`{"n":0}`].Fate != engine.Delivered {
				t.Errorf("batches %q, results %v", got, src.Results())
			}
		}},
		{"79: what a Read adds when the stop comes is delivered; no Read follows", func(t *testing.T) {
			stop, cancel := context.WithCancel(t.Context())
			src := &lastWord{}
			dst := &Sink{}
			p := pipe(&Source{}, dst)
			p.Inputs = Named("in",
				engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
			time.AfterFunc(time.Second, cancel)
			Run(t, p, stop)
			if got := dst.Bodies(); !slices.Equal(got, []string{"last"}) || src.reads != 1 {
				t.Errorf("delivered %q in %d reads", got, src.reads)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { synctest.Test(t, tt.run) })
	}
}

type processorFunc func(context.Context, *engine.Batch) error

func (f processorFunc) Process(ctx context.Context, b *engine.Batch) error { return f(ctx, b) }

// badAcker panics at its first ack.
type badAcker struct {
	Source
	panicked bool
}

func (b *badAcker) Read(ctx context.Context, batch *engine.Batch) (engine.Acker, error) {
	_, err := b.Source.Read(ctx, batch)
	return b, err
}

func (b *badAcker) Ack(ctx context.Context, rs []engine.Result) ([]engine.Result, error) {
	if !b.panicked {
		b.panicked = true
		panic("no acknowledger")
	}
	return b.Source.Ack(ctx, rs)
}

// lastWord yields one message when it is told to stop.
type lastWord struct {
	reads   int
	stopped bool
}

func (l *lastWord) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if l.reads++; l.stopped {
		return nil, fmt.Errorf("read after stop: %w", io.ErrClosedPipe)
	}
	<-ctx.Done()
	b.Add([]byte("last"))
	return nil, ctx.Err()
}

func (l *lastWord) Stop(context.Context) error { l.stopped = true; return nil }
