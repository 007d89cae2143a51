package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// flapping is an input whose connection is cut repeatedly, some time after it was opened, with a message on it or without.
type flapping struct {
	cuts    int
	stands  time.Duration
	speaks  bool // there is one message on each connection
	spoken  bool
	opened  time.Time
	down    []time.Duration // how long it was closed each time
	lost    time.Time
	refuses int // number of times that Open fails
}

func (f *flapping) Open(context.Context) error {
	if f.refuses > 0 && !f.lost.IsZero() {
		f.refuses--
		return errors.New("refused")
	}
	if f.opened, f.spoken = time.Now(), false; !f.lost.IsZero() {
		f.down = append(f.down, time.Since(f.lost))
	}
	return nil
}

func (f *flapping) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if f.speaks && !f.spoken {
		f.spoken = true
		b.Add([]byte(`{}`))
		return nil, nil
	}
	var cut <-chan time.Time
	if f.cuts > 0 {
		cut = time.After(time.Until(f.opened.Add(f.stands)))
	}
	select {
	case <-cut:
		f.cuts--
		f.lost = time.Now()
		return nil, errors.New("connection reset")
	case <-ctx.Done():
		return nil, nil
	}
}

func TestAnInputHasRecoveredWhenItsConnectionStands(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name    string
		in      flapping
		ends    bool
		backoff time.Duration // the longest time that it may be closed; 0: any
	}{
		{"a quiet one that is cut now and then", flapping{cuts: 20, stands: s}, false, s},
		{"one that stands for less than a second", flapping{cuts: 20, stands: s - 1}, true, 0},
		{"a message is no recovery", flapping{cuts: 20, stands: 0, speaks: true}, true, 0},
		{"a message less than a second before the cut", flapping{cuts: 20, stands: s - 1, speaks: true}, true, 0},
		{"with a message on each connection", flapping{cuts: 20, stands: s, speaks: true}, false, s},
		{"one that does not open counts, too", flapping{cuts: 1, stands: time.Hour, refuses: 3}, true, 0},
		{"one that opens in time", flapping{cuts: 1, stands: time.Hour, refuses: 2}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipe(&Source{}, &Sink{})
				p.Inputs = Named("in",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return &tt.in, nil })})
				p.Engine.Restart = engine.Restart{MaxAttempts: 4}
				stop, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
				defer cancel()
				rep := Run(t, p, stop)
				if ended := rep.Err != nil; ended != tt.ends {
					t.Errorf("ended with %v, want an end: %v", rep.Err, tt.ends)
				}
				for i, d := range tt.in.down {
					if tt.backoff > 0 && d > tt.backoff {
						t.Errorf("closed for %v after cut %d, want at most %v", d, i+1, tt.backoff)
					}
				}
			})
		})
	}
}

// An input becomes healthy once its connection has lasted for a while, with messages or without.
func TestAQuietInputIsHealthyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &flapping{cuts: 1, stands: time.Minute}
		p := pipe(&Source{}, &Sink{})
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })})
		p.Engine.Restart = engine.Restart{Backoff: time.Millisecond}
		plan := Build(t, p)
		stop, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			began := time.Now()
			for _, tt := range []struct {
				at   time.Duration
				want string
			}{
				{time.Second, "reading: "},
				{time.Minute + 500*time.Millisecond, "restarting: connection reset"},
				{time.Minute + 1500*time.Millisecond, "reading: "},
			} {
				time.Sleep(time.Until(began.Add(tt.at)))
				if s := plan.Snapshot().Inputs[0]; s.State+": "+s.Err != tt.want {
					t.Errorf("after %v it is %q, want %q", tt.at, s.State+": "+s.Err, tt.want)
				}
			}
		}()
		plan.Run(stop, context.Background())
	})
}

// cutting is a source whose Reads fail with each of the errors in cuts before each message.
type cutting struct {
	*Source
	cuts   []error
	opened int
}

func (c *cutting) Open(context.Context) error { c.opened++; return nil }

func (c *cutting) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if len(c.cuts) > 0 {
		cut := c.cuts[0]
		c.cuts = c.cuts[1:]
		return c.Source, cut
	}
	return c.Source.Read(ctx, b)
}

func TestOnlyErrEndEndsAnInput(t *testing.T) {
	for _, cut := range []error{
		io.EOF,
		io.ErrUnexpectedEOF,
		&engine.Error{Class: engine.Transient, Err: io.EOF},
		fmt.Errorf("receive: %w", engine.ErrEnd),
		errors.Join(engine.ErrEnd),
	} {
		t.Run(fmt.Sprintf("%T %v", cut, cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &cutting{Source: &Source{Payloads: []string{"a", "b"}, Takes: engine.TakesOne}, cuts: []error{cut, cut, cut}}
				dst := &Sink{}
				p := pipe(&Source{}, dst)
				p.Inputs = Named("in",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })})
				if rep := Run(t, p, nil); rep.Err != nil {
					t.Errorf("the run ended with %v", rep.Err)
				}
				if got := dst.Bodies(); !slices.Equal(got, []string{"a", "b"}) || in.opened != 4 {
					t.Errorf("delivered %q, opened %d times; want a and b, and 4", got, in.opened)
				}
			})
		})
	}
}

// idle is an input whose Read waits until its context ends, and then returns the error of end.
type idle struct {
	end    func(ctx context.Context) error
	opened atomic.Int32
}

func (w *idle) Open(context.Context) error { w.opened.Add(1); return nil }

func (w *idle) Read(ctx context.Context, _ *engine.Batch) (engine.Acker, error) {
	<-ctx.Done()
	return nil, w.end(ctx)
}

func TestAnErrorThatCoincidesWithAPauseIsNotDropped(t *testing.T) {
	tests := []struct {
		name   string
		end    func(ctx context.Context) error
		opened int32
	}{
		{"nothing but the pause", context.Context.Err, 1},
		{"the pause, in the words of a client", func(ctx context.Context) error { return fmt.Errorf("receive: %w", ctx.Err()) }, 1},
		{"no error", func(context.Context) error { return nil }, 1},
		{"a connection that was cut", func(context.Context) error { return io.EOF }, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &idle{end: tt.end}
				p := pipe(&Source{}, &Sink{})
				p.Inputs = Named("in",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })})
				plan := Build(t, p)
				stop, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() {
					time.Sleep(time.Second)
					plan.Pause()
					time.Sleep(20 * time.Second)
					if n := in.opened.Load(); n != tt.opened {
						t.Errorf("opened %d times, want %d", n, tt.opened)
					}
				}()
				if rep := plan.Run(stop, context.Background()); rep.Err != nil {
					t.Errorf("the run ended with %v", rep.Err)
				}
			})
		})
	}
}

// absent is an input and an output whose server is missing for a while, or refuses requests.
type absent struct {
	until   time.Time
	refuses error
	opens   int
	closes  int
	ended   bool
	sink    Sink
}

func (a *absent) Open(context.Context) error {
	a.opens++
	if time.Now().Before(a.until) {
		return a.refuses
	}
	return nil
}

func (a *absent) Close(context.Context) error {
	a.closes++
	return nil
}

func (a *absent) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if a.ended {
		return nil, engine.ErrEnd
	}
	a.ended = true
	b.Add([]byte(`{}`))
	return nil, nil
}

func (a *absent) Write(ctx context.Context, b *engine.Batch) error { return a.sink.Write(ctx, b) }

func TestAServerThatIsNotThereAtTheStartIsWaitedFor(t *testing.T) {
	mistake := engine.Errorf(engine.Transient, "no such queue")
	mistake.Mistake = true
	tests := []struct {
		name  string
		err   error
		waits bool
	}{
		{"it can't be reached", engine.Errorf(engine.Transient, "connection refused"), true},
		{"it does not answer", engine.Errorf(engine.Timeout, "no answer"), true},
		{"it refuses the credentials", engine.Errorf(engine.Auth, "wrong password"), false},
		{"the configuration can't work", engine.Errorf(engine.Permanent, "too old"), false},
		{"it has not got what is named", mistake, false},
		{"nobody has classified the error", errors.New("no such file"), false},
	}
	for _, tt := range tests {
		for _, side := range []string{"input", "output"} {
			t.Run(side+": "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := &absent{until: time.Now().Add(time.Minute), refuses: tt.err}
					dst := &Sink{}
					p := pipe(&Source{Payloads: []string{`{}`}}, dst)
					if side == "input" {
						p.Inputs = Named("in",
							engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return a, nil })})
					} else {
						dst = &a.sink
						p.Outputs = Named("out",
							engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return a, nil })})
					}
					rep := Run(t, p, nil)
					delivered, opens := 1, a.opens > 2
					if !tt.waits {
						delivered, opens = 0, a.opens == 1
					}
					if (rep.Err == nil) != tt.waits || len(dst.Bodies()) != delivered || !opens {
						t.Errorf("err %v, delivered %q, opened %d times", rep.Err, dst.Bodies(), a.opens)
					}
					if closes := map[bool]int{true: 1}[tt.waits]; a.closes != closes {
						t.Errorf("closed %d times, want %d", a.closes, closes)
					}
				})
			})
		}
	}
}

func TestAnOutputThatIsNotThereAtTheStartIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &absent{until: time.Now().Add(time.Hour), refuses: engine.Errorf(engine.Transient, "connection refused")}
		p := pipe(&Source{Payloads: []string{`{}`}}, &Sink{})
		p.Outputs = Named("out", engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return a, nil })})
		plan := Build(t, p)
		go func() {
			time.Sleep(time.Minute)
			if s := plan.Snapshot().Outputs[0]; s.Err != "connection refused" || s.Breaker == "closed" {
				t.Errorf("after a minute: %q, breaker %s", s.Err, s.Breaker)
			}
		}()
		stop, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		rep := plan.Run(stop, context.Background())
		if rep.Err != nil || a.closes != 0 || rep.Stats.Roots.Ended[engine.Delivered] != 0 {
			t.Errorf("err %v, closed %d times, %+v", rep.Err, a.closes, rep.Stats.Roots)
		}
	})
}
