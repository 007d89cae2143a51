// Package pipetest runs the tests of a pipeline file on the real engine, in virtual time, with inputs and outputs of
// its own. `flowd test` calls it, in a process for each test. Start at [Run].
//
// Virtual time comes from testing/synctest inside flowd itself: 87 KB of a program of 58 MB, and no flag. A clock
// that is passed to everybody would cost as little (54 ns per call, like time.Now), but would not be enough. Time
// must only advance when nothing else can happen, and only the runtime knows that. About 150 lines of the engine wait
// on channels, locks and groups, 55 more in steps, and libraries have theirs: each would have to tell the clock when
// it waits and wakes. Deadlines of contexts would still use real time, and so would plugins that read the clock
// themselves.
package pipetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/schema"
)

// longest is how long a test may take, in virtual time after its last message.
const longest = 24 * time.Hour

// Result is the outcome of a test.
type Result struct {
	Differences []Difference       `json:"differences,omitempty"` // none: the test has passed
	Came        map[string][]Write `json:"came,omitempty"`        // by output, in order
	Fates       config.Fates       `json:"fates"`
	Acks        []Ack              `json:"acks,omitempty"` // by input message
	Failures    []CameFailure      `json:"failures,omitempty"`
	Took        time.Duration      `json:"took"` // virtual time
	Log         string             `json:"log,omitempty"`
	Problems    []schema.Problem   `json:"problems,omitempty"` // why the pipeline can't be built
}

// CameFailure is a group of failures as the engine reports it.
type CameFailure struct {
	Failure
	Fate  string `json:"fate"`
	Count int64  `json:"count"`
	From  string `json:"from"`
}

// Run runs one test. It changes the rehearsal. A process must run only one test: what plugins keep for later may
// belong to the virtual time of the test, and goroutines that they leave behind stay. The error says why the test did
// not end.
func Run(r config.Rehearsal) (res Result, err error) {
	err = apart(func() { res = run(r) })
	return res, err
}

// apart runs f in virtual time, and returns when f has returned: connections that plugins keep open may keep the bubble.
func apart(f func()) error {
	done := make(chan error, 1)
	go func() {
		if err := bubble(func() { f(); done <- nil }); err != nil {
			done <- err
		}
	}()
	return <-done
}

// stage is the pipeline of a test.
type stage struct {
	config.Rehearsal
	start   time.Time
	sources map[string]*source
	sinks   map[string]*sink
	log     tail

	unfinished time.Duration // virtual time after which the run was given up; 0: it has ended
}

// shared replaces remote workers by slots of this process.
func shared() *engine.Shared {
	s := &engine.Shared{}
	wire.Of(s).Rehearsal = true
	return s
}

func newStage(r config.Rehearsal) *stage {
	return &stage{Rehearsal: r, start: time.Now(), sources: map[string]*source{}, sinks: map[string]*sink{}}
}

func run(r config.Rehearsal) Result {
	s := newStage(r)
	s.set()
	report, problems := s.play()
	if report == nil {
		return Result{Problems: problems}
	}
	res := s.result(*report)
	if s.unfinished > 0 {
		res.Differences = append([]Difference{{At: "run",
			Got: fmt.Sprintf("not finished after %v of virtual time: something is retried without end, or never returns",
				s.unfinished)}}, res.Differences...)
	}
	return res
}

// play builds the pipeline and runs it to its end. The report is nil if it can't be built.
func (s *stage) play(o ...engine.Observer) (*runtime.Report, []schema.Problem) {
	defer expr.Seed(uint64(s.Test.Seed))()
	plan, problems := runtime.Build(s.Pipeline, runtime.Options{
		Log: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{ReplaceAttr: s.attr})), Shared: shared(),
		Caches: s.Caches, Limits: s.Limits, Secrets: s.Secrets, Observers: o,
		Registries: unasked(s.Registries), Tables: s.Tables,
	})
	if plan == nil {
		return nil, problems
	}
	feed, stopFeeding := context.WithCancel(context.Background())
	limit := longest + s.Test.Until
	for _, in := range s.Test.Input {
		limit = max(limit, longest+in.At)
	}
	kill, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var feeding sync.WaitGroup
	feeding.Go(func() { s.feed(feed) })
	report := plan.Run(context.Background(), kill)
	stopFeeding()
	feeding.Wait()
	if kill.Err() != nil {
		s.unfinished = limit
	}
	return &report, problems
}

// attr shortens the log: times count from the start, and there is only one pipeline.
func (s *stage) attr(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey:
		return slog.Duration("at", a.Value.Time().Sub(s.start))
	case a.Key == "pipeline":
		return slog.Attr{}
	}
	return a
}

// set installs sources, sinks, mocks and faults. One worker and one write at a time make the order deterministic.
func (s *stage) set() {
	p := s.Pipeline
	p.Engine.Workers = 1
	var inputs []schema.Entry[engine.InputSpec]
	for _, e := range p.Inputs.Entries() {
		in := newSource(s.Test)
		s.sources[e.Key] = in
		use := engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })
		use.Place = e.Value.Use.Place
		e.Value.Use, e.Value.Concurrency = use, 1
		inputs = append(inputs, e)
	}
	p.Inputs = schema.MapOf(inputs...)
	var outputs []schema.Entry[engine.OutputSpec]
	for _, e := range p.Outputs.Entries() {
		if !slices.Contains(config.Routes, e.Value.Use.Name) {
			out := &sink{start: s.start, fault: s.faultOf(e.Key)}
			s.sinks[e.Key] = out
			use := engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })
			use.Place = e.Value.Use.Place
			e.Value.Use, e.Value.Concurrency = use, 1
		}
		outputs = append(outputs, e)
	}
	p.Outputs = schema.MapOf(outputs...)
	for name, c := range s.Caches {
		if c.Name != "memory" { // a memory cache is local already
			s.Caches[name] = newCache()
		}
	}
	faults := map[string]*fault{}
	s.EachStep(func(step *engine.StepSpec) {
		name := config.StepName(step)
		use := step.Use
		if m, ok := s.Test.Mocks.Get(name); ok {
			step.Use = engine.Use(func(engine.Env) (engine.Processor, error) { return mocked(m), nil })
		}
		if _, ok := s.Test.Fail.Get(name); ok && s.sinks[name] == nil {
			if faults[name] == nil {
				faults[name] = s.faultOf(name)
			}
			inner := step.Use
			step.Use = engine.Use(func(env engine.Env) (engine.Processor, error) {
				p, err := inner.Build(env)
				return &faulty{p, faults[name]}, err
			})
		}
		if step.Use.Place = use.Place; step.Use.Name != use.Name {
			step.Name = name // the name was that of its type
		}
	})
}

func (s *stage) faultOf(name string) *fault {
	spec, ok := s.Test.Fail.Get(name)
	if !ok {
		return nil
	}
	return &fault{spec: spec, start: s.start}
}

// result collects what arrived, and compares it with what the test expects.
func (s *stage) result(report runtime.Report) Result {
	res := Result{Came: map[string][]Write{}, Took: time.Since(s.start), Log: s.log.String()}
	for name, out := range s.sinks {
		if len(out.writes) > 0 {
			res.Came[name] = out.writes
		}
	}
	ended := report.Stats.Roots.Ended
	res.Fates = config.Fates{
		Delivered: ended[engine.Delivered], Filtered: ended[engine.Filtered], DeadLettered: ended[engine.DeadLettered],
		Dropped: ended[engine.Dropped], Returned: ended[engine.Returned],
	}
	for i := range s.Test.Input {
		res.Acks = append(res.Acks, s.ackOf(i))
	}
	for _, g := range report.Failures {
		same := slices.IndexFunc(res.Failures, func(f CameFailure) bool { // with another reason
			return f.Class == g.First.Class && f.Place == g.First.Place && f.Fate == g.Fate.String()
		})
		if same >= 0 {
			res.Failures[same].Count += g.Count
			continue
		}
		res.Failures = append(res.Failures, CameFailure{
			Failure: Failure{g.First.Class, g.First.Place, g.First.Message}, Fate: g.Fate.String(), Count: g.Count,
			From: g.First.From,
		})
	}
	res.Differences = s.compare(&res, report.Err)
	return res
}

// tail keeps the beginning of a log. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex // guards the field below
	buf bytes.Buffer
}

const mostLog = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := mostLog - t.buf.Len(); room > 0 {
		t.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
