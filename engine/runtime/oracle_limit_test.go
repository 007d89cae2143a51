package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// passages counts the messages that have passed a limit, by time since the world began.
type passages struct {
	name  string
	limit engine.RateLimit
	began time.Time

	mu sync.Mutex // guards the field below
	at map[time.Duration]int
}

func (p *passages) pass(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = map[time.Duration]int{}
	}
	p.at[time.Since(p.began)] += n
}

// watched returns the limit l with its passages, or nil if l has keys.
func (w *world) watched(name string, l *engine.RateLimit) *passages {
	if l == nil || !l.Key.IsZero() {
		return nil
	}
	p := &passages{name: name, limit: *l, began: w.began}
	w.limits = append(w.limits, p)
	return p
}

// enters returns a step that counts each message as passing these limits.
func enters(limits ...*passages) engine.StepSpec {
	return proc("enters", func(_ context.Context, b *engine.Batch) error {
		n := 0
		for range b.All() {
			n++
		}
		for _, l := range limits {
			if l != nil && n > 0 {
				l.pass(n)
			}
		}
		return nil
	})
}

// held checks that no interval of a window's length has more messages than the limit allows.
func (p *passages) held(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := tooMany(p.limit, p.at); why != "" {
		t.Errorf("the limit of %s, %d in %v (%s): %s", p.name, p.limit.Messages, p.limit.Per, p.limit.Kind, why)
	}
}

// used checks that until end, as many messages have passed as the limit allows. It leaves time for a batcher.
func (p *passages) used(t *testing.T, end time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := time.Duration(0); at < end; at += p.limit.Per {
		passed := 0
		for when, n := range p.at {
			if when <= at+2*time.Millisecond {
				passed += n
			}
		}
		if want := p.limit.Messages * (1 + int(at/p.limit.Per)); passed < want {
			t.Errorf("the limit of %s, %d in %v (%s): %d have passed after %v, want %d", p.name, p.limit.Messages,
				p.limit.Per, p.limit.Kind, passed, at, want)
			return
		}
	}
}

// quiet is an interval in which a source has no messages, and its connection is cut repeatedly, each time after it has lasted for a
// second or longer.
func (o *origin) cut(ctx context.Context) (err error) {
	o.mu.Lock()
	taken, stands := o.Taken(), o.standing
	if o.quiet[taken] == 0 {
		o.mu.Unlock()
		return nil
	}
	o.quiet[taken]--
	since := o.connected
	o.mu.Unlock()
	select {
	case <-time.After(time.Until(since.Add(stands))):
	case <-ctx.Done():
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cutAt = time.Now()
	return errors.New("the connection was cut")
}

// reopens notes that the input is opened. After a connection that lasted, this must happen within the first back-off.
func (o *origin) reopens() {
	first := o.w.p.Engine.Restart.Backoff
	if down := time.Since(o.cutAt); !o.cutAt.IsZero() && down > first && !o.w.reloads {
		o.w.t.Errorf("a connection that had stood for %v was opened again after %v, want at most %v", o.standing, down,
			first)
	}
	o.cutAt, o.connected = time.Time{}, time.Now()
}

// TestNoLimitIsBrokenOrWasted generates whole pipelines from seeds, and runs them in virtual time. Their sources are fast, slow and
// idle. No limit is exceeded in any interval, and each is used up as long as a source has messages. The seeds are those of
// TestEveryMessageIsAnObligation.
func TestNoLimitIsBrokenOrWasted(t *testing.T) {
	first, last := *from, uint64(*seeds)
	if *seed > 0 {
		first, last = *seed, *seed
	}
	for s := first; s <= last; s++ {
		ok := t.Run(fmt.Sprint(s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, r: rand.New(rand.NewPCG(s, 11)), began: time.Now()}
				w.hurried()
			})
		})
		if !ok {
			t.Fatalf("again: go test ./engine -run TestNoLimitIsBrokenOrWasted -seed %d", s)
		}
	}
}

func (w *world) hurried() {
	limit := engine.RateLimit{Messages: w.one(1, 2, 7, 50, 100), Per: w.ms(20, 2000),
		Kind: []string{"window", "bucket"}[w.r.IntN(2)]}
	end := 20 * limit.Per
	p := &engine.Pipeline{Name: "hurried", Engine: engine.EngineSpec{Workers: 1 + w.r.IntN(4), OnFailure: once}}
	if w.maybe(3) {
		p.Engine.OrderBy = expr.MustCompile("n % 5")
	}
	in := engine.InputSpec{}
	out := (&Sink{}).Output()
	var passes *passages
	where := w.r.IntN(3)
	switch where {
	case 0:
		p.Engine.RateLimit, passes = &limit, w.watched("the engine", &limit)
	case 1:
		in.RateLimit, passes = &limit, w.watched("an input", &limit)
	default:
		out.RateLimit, passes = &limit, w.watched("an output", &limit)
	}
	if where < 2 {
		in.Processors = engine.Steps{enters(passes)}
	} else {
		out.Concurrency = engine.Concurrency(1 + w.r.IntN(4))
		out.Use = engine.Use(func(engine.Env) (engine.Output, error) { return counting{passes}, nil })
		if w.maybe(2) {
			p.Batchers = Named("all", batched(w.t, fmt.Sprintf(`{"size": %d, "timeout": "1ms"}`, 1+w.r.IntN(200)),
				"out"))
		}
	}
	sources := []*Source{{Payloads: numbers(30 * (1 + limit.Messages)), PerRead: w.one(0, 1, 10), Endless: true}}
	for range w.r.IntN(4) {
		sources = append(sources, &Source{Payloads: numbers(2000), PerRead: w.one(0, 1, 10),
			Every: w.ms(1, w.one(50, 500, 100_000)), Endless: true})
	}
	if where == 1 { // one input with several instances
		next := 0
		in.Concurrency = len(sources)
		in.Use = engine.Use(func(engine.Env) (engine.Input, error) { next++; return sources[next-1], nil })
		p.Inputs = Named("in", in)
	} else {
		var all []schema.Entry[engine.InputSpec]
		for i, s := range sources {
			spec := s.Input()
			spec.Processors = in.Processors
			all = append(all, entry(fmt.Sprint("in", i), spec))
		}
		p.Inputs = schema.MapOf(all...)
	}
	p.Outputs = Named("out", out)
	stop, cancel := context.WithTimeout(w.t.Context(), end)
	defer cancel()
	Run(w.t, p, stop)
	passes.held(w.t)
	passes.used(w.t, end)
}

// counting is an output that counts messages.
type counting struct{ *passages }

func (c counting) Write(_ context.Context, b *engine.Batch) error {
	n := 0
	for range b.All() {
		n++
	}
	c.pass(n)
	return nil
}
