package stage

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// rig is a pipeline with one input, batchers and outputs. Tests change it before it runs, and may add steps.
type rig struct {
	t   *testing.T
	src *source
	p   *Layout
}

func newRig(t *testing.T, takes engine.TakesBack) *rig {
	src := &source{takes: takes, fates: map[string]engine.Fate{}, delays: map[string]time.Duration{}}
	log := slog.New(slog.DiscardHandler)
	return &rig{t, src, &Layout{
		Name: "test", Log: log, Steps: &steps.Program{}, Pauses: life.NewPauses(), Plugins: life.Plugins{Log: log},
		Counters: engine.CountersOf(&engine.Shared{}, "test"),
		Inputs:   []*InputPlan{{Name: "in", Inputs: []engine.Input{src}, Steps: &steps.Program{}, Takes: takes}},
		Workers:  1, MaxMessages: 1000, MaxBytes: 1 << 20, MaxReplay: 1000, DrainTime: 25 * time.Second, Timeout: time.Second,
	}}
}

// output adds an output. Unless it is only for dead letters, the last batcher also sends to it.
func (g *rig) output(name string, out engine.Output, feeds bool) *OutputPlan {
	o := &OutputPlan{Name: name, Out: out, Feeds: feeds, Retry: &retry.Plan{MaxAttempts: 1}, Steps: &steps.Program{},
		Concurrency: 1, Timeout: time.Second,
		Breaker: engine.Breaker{Failures: 10, Backoff: time.Second, MaxBackoff: time.Second}}
	g.p.Outputs = append(g.p.Outputs, o)
	if feeds {
		if len(g.p.Batchers) == 0 {
			g.batcher("")
		}
		b := g.p.Batchers[len(g.p.Batchers)-1]
		b.Outputs = append(b.Outputs, o)
	}
	return o
}

func (g *rig) batcher(name string) *BatcherPlan {
	b := &BatcherPlan{Name: name, Steps: &steps.Program{}}
	g.p.Batchers = append(g.p.Batchers, b)
	return b
}

// step sets the only step of the pipeline.
func (g *rig) step(name string, f engine.ProcessorFunc) {
	p := g.p.Steps
	p.Ops = []steps.Op{{Run: f, Name: name, Next: 1, Timeout: time.Minute, In: p,
		Figures: steps.NewStepFigures(name, name, g.p.Log)}}
}

// runs runs the pipeline with payloads until all have ended, or the run fails.
func (g *rig) runs(payloads ...string) *Run {
	g.t.Helper()
	g.src.payloads = payloads
	works, cancel := context.WithCancel(context.Background())
	defer cancel()
	expired, expire := context.WithCancel(context.Background())
	defer expire()
	r := NewRun(g.p, nil)
	var readers sync.WaitGroup
	r.Start(works)
	r.Begin(works, works, expired)
	r.Runs()
	r.StartReaders(&readers, works)
	select {
	case <-r.Empty:
	case <-r.Failing:
		r.Advance(life.Returning)
		expire()
		r.CloseQueues()
		r.HandBack(works)
	case <-time.After(time.Hour):
		g.t.Fatal("not all messages have ended after an hour")
	}
	r.CloseQueues()
	r.FinishAcks(time.Now().Add(time.Second), cancel)
	cancel()
	readers.Wait()
	r.Loops.Wait()
	if c := r.Stats(); !c.Roots.Balanced() || !c.Pieces.Balanced() || c.Pieces.InFlight != 0 {
		g.t.Errorf("messages do not add up: %+v", c)
	}
	return r
}

// source is an input that yields its payloads and ends. It records how they ended.
type source struct {
	payloads []string
	takes    engine.TakesBack

	next int

	mu     sync.Mutex // guards the fields below
	fates  map[string]engine.Fate
	delays map[string]time.Duration
}

func (s *source) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.next == len(s.payloads) {
		return s.acker(), engine.ErrEnd
	}
	for ; s.next < len(s.payloads) && b.Room() > 0; s.next++ {
		b.Add([]byte(s.payloads[s.next])).Ref = uint64(s.next)
	}
	return s.acker(), nil
}

func (s *source) acker() engine.Acker {
	if s.takes == engine.TakesNothing {
		return nil
	}
	return s
}

func (s *source) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		s.fates[s.payloads[r.Ref]], s.delays[s.payloads[r.Ref]] = r.Fate, r.Delay
	}
	return nil, nil
}

// output records writes. fail returns the error of a payload at its nth attempt, from 1 on. If fail is nil, none fails.
type output struct {
	fail func(payload string, n int) error

	mu       sync.Mutex // guards the fields below
	attempts map[string]int
	at       map[string]time.Time // time of the last attempt, by payload
	began    time.Time
	writes   [][]string // what was stored, by write
	triggers []engine.Trigger
	metas    map[string]map[string]any
}

func (o *output) Write(_ context.Context, b *engine.Batch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.attempts == nil {
		o.attempts, o.metas, o.began = map[string]int{}, map[string]map[string]any{}, time.Now()
		o.at = map[string]time.Time{}
	}
	var stored []string
	for m := range b.All() {
		body := string(m.Bytes())
		o.attempts[body]++
		o.at[body] = time.Now()
		if o.fail != nil {
			if err := o.fail(body, o.attempts[body]); err != nil {
				m.Fail(err)
				continue
			}
		}
		o.metas[body] = m.Meta.Map()
		stored = append(stored, body)
	}
	if len(stored) > 0 {
		o.writes, o.triggers = append(o.writes, stored), append(o.triggers, b.Trigger())
	}
	return nil
}

// stored returns all payloads that were written, in order.
func (o *output) stored() []string { return slices.Concat(o.writes...) }

func wantWrites(t *testing.T, o *output, want ...[]string) {
	t.Helper()
	if !slices.EqualFunc(o.writes, want, slices.Equal) {
		t.Errorf("wrote %q, want %q", o.writes, want)
	}
}
