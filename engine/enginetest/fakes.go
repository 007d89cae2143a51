package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Source is a scripted input for one pipeline. Its fields are set before the run. It yields the payloads in order and then
// ends or, with Endless, waits until it is stopped. Its methods are safe for concurrent use.
type Source struct {
	Payloads []string
	Takes    engine.TakesBack
	PerRead  int                            // the most messages of one Read; 0: as many as there is room for
	Endless  bool                           // wait for a stop after the payloads
	Every    time.Duration                  // pause before each Read
	Prepare  func(i int, m *engine.Message) // called for each message
	Fail     error                          // returned after the payloads instead of engine.ErrEnd

	mu      sync.Mutex // guards the fields below
	next    int
	results []engine.Result
	calls   [][]engine.Result
	stopped bool
}

var _ engine.Stopper = (*Source)(nil)

// Read yields the next payloads.
func (s *Source) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.Every > 0 {
		select {
		case <-time.After(s.Every):
		case <-ctx.Done():
			return s.acker(), nil
		}
	}
	s.mu.Lock()
	n := 0
	for ; s.next < len(s.Payloads) && b.Room() > 0 && (s.PerRead == 0 || n < s.PerRead); n++ {
		m := b.Add([]byte(s.Payloads[s.next]))
		m.Ref = uint64(s.next)
		if s.Prepare != nil {
			s.Prepare(s.next, m)
		}
		s.next++
	}
	over := s.next == len(s.Payloads)
	s.mu.Unlock()
	switch {
	case n > 0 || !over:
		return s.acker(), nil
	case s.Endless:
		<-ctx.Done()
		return s.acker(), nil
	case s.Fail != nil:
		return s.acker(), s.Fail
	}
	return s.acker(), engine.ErrEnd
}

func (s *Source) acker() engine.Acker {
	if s.Takes == engine.TakesNothing {
		return nil
	}
	return s
}

// Traits returns s.Takes.
func (s *Source) Traits() engine.Traits { return engine.Traits{TakesBack: s.Takes} }

// Ack records results.
func (s *Source) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, rs...)
	s.calls = append(s.calls, slices.Clone(rs))
	return nil, nil
}

// Stop records that no Read follows.
func (s *Source) Stop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return nil
}

// Results returns the results of Acks so far, by payload.
func (s *Source) Results() map[string]engine.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]engine.Result{}
	for _, r := range s.results {
		all[s.Payloads[r.Ref]] = r
	}
	return all
}

// Calls returns the results of each Ack so far.
func (s *Source) Calls() [][]engine.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Taken is how many payloads have been read.
func (s *Source) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Input returns the source as a component.
func (s *Source) Input() engine.InputSpec {
	return engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return s, nil })}
}

// Write is one write of a [Sink]: the messages that it did not fail.
type Write struct {
	At      time.Time
	Bodies  []string
	Trigger engine.Trigger
	Metas   []map[string]any
}

// Sink is a scripted output that records its writes. Its methods are safe for concurrent use.
type Sink struct {
	Fail    func(body string) error     // its error fails one message
	FailAll func(bodies []string) error // its error fails the whole write
	See     func(m *engine.Message)     // called for each message
	Delay   time.Duration               // of each write
	Block   chan struct{}               // when set, writes wait until it is closed
	Ordered bool                        // it is sequential; see engine.Traits
	Bulk    bool                        // see engine.Traits

	mu           sync.Mutex // guards the fields below
	writes       []Write
	active, most int
}

// Traits returns s.Ordered and s.Bulk.
func (s *Sink) Traits() engine.Traits { return engine.Traits{Sequential: s.Ordered, Bulk: s.Bulk} }

// Write records the messages.
func (s *Sink) Write(ctx context.Context, b *engine.Batch) error {
	s.mu.Lock()
	s.active++
	s.most = max(s.most, s.active)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.active--
		s.mu.Unlock()
	}()
	if err := s.wait(ctx); err != nil {
		return err
	}
	w := Write{At: time.Now(), Trigger: b.Trigger()}
	var all []string
	for m := range b.All() {
		body := string(m.Bytes())
		all = append(all, body)
		if s.See != nil {
			s.See(m)
		}
		if s.Fail != nil {
			if err := s.Fail(body); err != nil {
				m.Fail(err)
				continue
			}
		}
		w.Bodies = append(w.Bodies, body)
		w.Metas = append(w.Metas, m.Meta.Map())
	}
	if s.FailAll != nil {
		if err := s.FailAll(all); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(w.Bodies) > 0 {
		s.writes = append(s.writes, w)
	}
	return nil
}

func (s *Sink) wait(ctx context.Context) error {
	if s.Delay > 0 {
		select {
		case <-time.After(s.Delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.Block != nil {
		select {
		case <-s.Block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Writes returns all writes so far.
func (s *Sink) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Write(nil), s.writes...)
}

// Bodies returns all payloads that were written so far, in order.
func (s *Sink) Bodies() []string {
	var all []string
	for _, w := range s.Writes() {
		all = append(all, w.Bodies...)
	}
	return all
}

// Most is the most writes that ran at once.
func (s *Sink) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Output returns the sink as a component.
func (s *Sink) Output() engine.OutputSpec {
	return engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return s, nil })}
}

// Step makes a step of a function that edits one message.
func Step(name string, f func(ctx context.Context, m *engine.Message) error) engine.StepSpec {
	return engine.StepSpec{Name: name, Use: Processing(engine.ProcessorFunc(f))}
}

// Processing makes a component of a processor.
func Processing(p engine.Processor) engine.Plugin[engine.Processor] {
	return engine.Use(func(engine.Env) (engine.Processor, error) { return p, nil })
}

// Named makes a section with one entry, such as inputs, batchers or outputs.
func Named[V any](name string, v V) schema.Map[V] {
	return schema.MapOf(schema.Entry[V]{Key: name, Value: v})
}

// Run builds a pipeline and runs it until it ends or stop ends, which may be nil. It checks that every message is accounted
// for.
func Run(t testing.TB, p *engine.Pipeline, stop context.Context) runtime.Report {
	t.Helper()
	if stop == nil {
		stop = context.Background()
	}
	rep := Build(t, p).Run(stop, context.Background())
	if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 {
		t.Errorf("roots do not add up: %+v", c)
	}
	if c := rep.Stats.Pieces; !c.Balanced() || c.InFlight != 0 {
		t.Errorf("pieces do not add up: %+v", c)
	}
	return rep
}

// Origins returns the origins of n messages that a pipeline has read.
func Origins(t testing.TB, n int) (all []engine.Origin) {
	t.Helper()
	src := &Source{Payloads: slices.Repeat([]string{"x"}, n)}
	Run(t, &engine.Pipeline{
		Inputs: Named("in", src.Input()), Outputs: Named("out", (&Sink{}).Output()),
		Processors: engine.Steps{Step("note", func(_ context.Context, m *engine.Message) error {
			all = m.Origins(all)
			return nil
		})}, Engine: engine.EngineSpec{Workers: 1},
	}, nil)
	return all
}

// Build makes a plan, or fails the test.
func Build(t testing.TB, p *engine.Pipeline) *runtime.Plan {
	t.Helper()
	plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.DiscardHandler)})
	if plan == nil {
		t.Fatal(errors.New(fmt.Sprint(problems)))
	}
	return plan
}
