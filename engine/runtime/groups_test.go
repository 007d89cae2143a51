package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
)

// Several pipelines run in one process. Each has its own lanes, credits and failures. They share named resources.

// busy is a step that takes a second, and counts how many of it run at once.
type busy struct{ now, most, all atomic.Int64 }

func (b *busy) step() engine.StepSpec {
	return Step("work", func(ctx context.Context, _ *engine.Message) error {
		n := b.now.Add(1)
		defer b.now.Add(-1)
		for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
		}
		b.all.Add(1)
		time.Sleep(time.Second)
		return ctx.Err()
	})
}

// group returns a pipeline with a number of lanes.
func processingGroup(name string, lanes int, src *Source, dst *Sink, steps ...engine.StepSpec) *engine.Pipeline {
	p := pipe(src, dst, steps...)
	p.Name, p.Engine.Workers = name, lanes
	return p
}

// process runs pipelines in one process, with shared options, until all have ended.
func process(t *testing.T, o runtime.Options, stop, kill context.Context,
	pipelines ...*engine.Pipeline) (reports []runtime.Report) {
	t.Helper()
	o.Shared = &engine.Shared{}
	plans := make([]*runtime.Plan, len(pipelines))
	for i, p := range pipelines {
		plan, problems := runtime.Build(p, o)
		if plan == nil {
			t.Fatal(problems)
		}
		plans[i] = plan
	}
	reports = make([]runtime.Report, len(plans))
	var wg sync.WaitGroup
	for i, plan := range plans {
		wg.Go(func() { reports[i] = plan.Run(stop, kill) })
	}
	wg.Wait()
	return reports
}

func TestLanesOverlapAndAreNeverMoreThanConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work busy
		rep := Run(t, processingGroup("g", 3, &Source{Payloads: numbers(10), Takes: engine.TakesOne, PerRead: 1},
			&Sink{}, work.step()), nil)
		if ended(rep, engine.Delivered) != 10 || work.most.Load() < 2 || work.most.Load() > 3 {
			t.Errorf("%d delivered, %d at once", ended(rep, engine.Delivered), work.most.Load())
		}
	})
}

func TestGroupsHaveLanesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wide, narrow busy
		reports := process(t, runtime.Options{}, t.Context(), t.Context(),
			processingGroup("wide", 3, &Source{Payloads: numbers(5), Takes: engine.TakesOne, PerRead: 1}, &Sink{},
				wide.step()),
			processingGroup("narrow", 1, &Source{Payloads: numbers(5), Takes: engine.TakesOne, PerRead: 1}, &Sink{},
				narrow.step()))
		for _, rep := range reports {
			if rep.Err != nil || ended(rep, engine.Delivered) != 5 {
				t.Errorf("%+v", rep)
			}
		}
		if wide.most.Load() < 2 || wide.most.Load() > 3 || narrow.most.Load() != 1 {
			t.Errorf("at once: %d of 3, %d of 1", wide.most.Load(), narrow.most.Load())
		}
	})
}

func TestAGroupThatFailsLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &Sink{Fail: func(string) error { return engine.Errorf(engine.Permanent, "%w", engine.ErrGone) }},
			&Sink{}
		reports := process(t, runtime.Options{}, t.Context(), t.Context(),
			processingGroup("bad", 2, &Source{Payloads: numbers(50), Takes: engine.TakesOne, Endless: true}, bad),
			processingGroup("good", 2, &Source{Payloads: numbers(50), Takes: engine.TakesOne, PerRead: 5,
				Every: time.Second}, good))
		if reports[0].Err == nil || reports[1].Err != nil || len(good.Bodies()) != 50 {
			t.Errorf("bad %v, good %v with %d delivered", reports[0].Err, reports[1].Err, len(good.Bodies()))
		}
	})
}

func TestAFailedGroupSaysSoInItsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for fail, want := range map[error]string{nil: "",
			engine.Errorf(engine.Permanent, "access denied"): "input in: access denied"} {
			plan := Build(t, pipe(&Source{Payloads: numbers(3), Takes: engine.TakesOne, Fail: fail}, &Sink{}))
			plan.Run(t.Context(), t.Context())
			if s := plan.Snapshot(); s.State != engine.Stopped || s.Err != want {
				t.Errorf("state %s, error %q, want %q", s.State, s.Err, want)
			}
		}
	})
}

func TestOneNamedLimitHoldsForAllGroupsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]engine.RateLimit{"api": {Messages: 10, Per: time.Second}}
		sinks := []*Sink{{}, {}, {}}
		var pipelines []*engine.Pipeline
		for i, dst := range sinks {
			p := processingGroup(string(rune('a'+i)), 2, &Source{Payloads: numbers(20), Takes: engine.TakesOne}, dst)
			p.Engine.RateLimit = &engine.RateLimit{Name: "api"}
			pipelines = append(pipelines, p)
		}
		began := time.Now()
		process(t, runtime.Options{Limits: limits}, t.Context(), t.Context(), pipelines...)
		perSecond := map[int]int{}
		for _, dst := range sinks {
			if n := len(dst.Bodies()); n != 20 {
				t.Errorf("%d delivered, want 20", n)
			}
			for _, w := range dst.Writes() {
				perSecond[int(w.At.Sub(began)/time.Second)] += len(w.Bodies)
			}
		}
		for second, n := range perSecond {
			if n > 10 {
				t.Errorf("%d messages in second %d, of 10", n, second)
			}
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("60 messages at 10 a second took %v", took)
		}
	})
}

// record records the kinds of events by pipeline.
type record struct {
	mu     sync.Mutex // guards the field below
	events []engine.Event
}

func (r *record) hook(e engine.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// kinds returns the events of a pipeline, except those of each batch or tick.
func (r *record) kinds(pipeline string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Pipeline == pipeline && e.Kind != engine.EventDispatch && e.Kind != engine.EventUtilization &&
			e.Kind != engine.EventStep && e.Kind != engine.EventBatch && e.Kind != engine.EventWrite && e.Kind != engine.EventQuiet {
			all = append(all, string(e.Kind))
		}
	}
	return all
}

func (r *record) of(pipeline string, kind engine.EventKind) (all []engine.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Pipeline == pipeline && e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

func TestEventsTellWhatEachGroupDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		var work busy
		a := processingGroup("a", 2, &Source{Payloads: numbers(60), Takes: engine.TakesOne, PerRead: 1}, &Sink{},
			work.step())
		b := processingGroup("b", 2, &Source{Payloads: numbers(1), Takes: engine.TakesOne, Endless: true}, &Sink{})
		stop, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			time.Sleep(time.Minute)
			cancel()
		}()
		process(t, runtime.Options{Hooks: []engine.Hook{rec.hook}}, stop, t.Context(), a, b)
		if got, want := rec.kinds("a"), []string{"startup", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("a: %q, want %q", got, want)
		}
		if got, want := rec.kinds("b"), []string{"startup", "drain", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("b: %q, want %q", got, want)
		}
		read := 0
		for _, e := range rec.of("a", engine.EventDispatch) {
			read += e.N
		}
		if read != 60 {
			t.Errorf("dispatch: %d messages, want 60", read)
		}
		full := slices.ContainsFunc(rec.of("a", engine.EventUtilization), func(e engine.Event) bool { return e.N == 2 })
		over := slices.ContainsFunc(rec.of("a", engine.EventUtilization), func(e engine.Event) bool { return e.N > 2 })
		if !full || over {
			t.Errorf("utilization: two lanes are never seen at work, or more than there are")
		}
		for _, e := range rec.of("b", engine.EventUtilization) {
			if e.N != 0 {
				t.Errorf("utilization: %d lanes of an idle group are at work", e.N)
			}
		}
		if got := rec.of("b", engine.EventQuiet); len(got) != 1 || got[0].N != 1 {
			t.Errorf("quiet: %v, want it once, after one message", got)
		}
	})
}

// receiving is an input that is still receiving when it is told to stop.
type receiving struct {
	results sync.Map
	done    bool
}

func (r *receiving) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

func (r *receiving) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	<-ctx.Done()
	if r.done {
		return r, engine.ErrEnd
	}
	r.done = true
	for i := range 3 {
		b.Add([]byte{'0' + byte(i)}).Ref = uint64(i)
	}
	return r, ctx.Err()
}

func (r *receiving) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	for _, x := range rs {
		r.results.Store(x.Ref, x.Fate)
	}
	return nil, nil
}

func stopping(t *testing.T, in engine.Input, o runtime.Options, soft bool, steps ...engine.StepSpec) (runtime.Report,
	*Sink) {
	t.Helper()
	dst := &Sink{}
	p := pipe(&Source{}, dst, steps...)
	p.Name = "g"
	p.Inputs = Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		time.Sleep(time.Second)
		cancel()
	}()
	stop, kill := ctx, t.Context()
	if !soft {
		stop, kill = t.Context(), ctx
	}
	return process(t, o, stop, kill, p)[0], dst
}

func TestASoftStopDuringAReceiveProcessesItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		in := &receiving{}
		rep, dst := stopping(t, in, runtime.Options{Hooks: []engine.Hook{rec.hook}}, true)
		if rep.Code() != 0 || len(dst.Bodies()) != 3 {
			t.Errorf("code %d, %d delivered", rep.Code(), len(dst.Bodies()))
		}
		for ref := range 3 {
			if fate, _ := in.results.Load(uint64(ref)); fate != engine.Delivered {
				t.Errorf("the source was told %v of %d", fate, ref)
			}
		}
		if got, want := rec.kinds("g"), []string{"startup", "drain", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestAHardStopDoesNotDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		src := &Source{Payloads: numbers(3), Takes: engine.TakesOne, Endless: true}
		hang := Step("hang", func(ctx context.Context, _ *engine.Message) error { <-ctx.Done(); return ctx.Err() })
		rep, dst := stopping(t, src, runtime.Options{Hooks: []engine.Hook{rec.hook}}, false, hang)
		if rep.Code() != 3 || len(dst.Bodies()) != 0 || rep.HandedBack != 3 {
			t.Errorf("code %d, %d delivered, %d handed back", rep.Code(), len(dst.Bodies()), rep.HandedBack)
		}
		if got, want := rec.kinds("g"), []string{"startup", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestHooksRunInOrderAndAPanicStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		named := func(name string, panics bool) engine.Hook {
			return func(e engine.Event) {
				if e.Kind != engine.EventStartup && e.Kind != engine.EventStopped {
					return
				}
				mu.Lock()
				order = append(order, name+" "+string(e.Kind))
				mu.Unlock()
				if panics {
					panic("a hook's own affair")
				}
			}
		}
		hooks := []engine.Hook{named("first", false), named("broken", true), named("last", false)}
		for range 2 {
			rep := process(t, runtime.Options{Hooks: hooks}, t.Context(), t.Context(),
				processingGroup("g", 1, &Source{Payloads: numbers(1)}, &Sink{}))
			if rep[0].Err != nil {
				t.Error(rep[0].Err)
			}
		}
		once := []string{"first startup", "broken startup", "last startup", "first stopped", "broken stopped",
			"last stopped"}
		if want := append(slices.Clone(once), once...); !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
	})
}

func TestTheEndOfAGroupThatFailedSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		src := &Source{Payloads: numbers(3), Takes: engine.TakesOne,
			Fail: engine.Errorf(engine.Permanent, "no such queue")}
		process(t, runtime.Options{Hooks: []engine.Hook{rec.hook}}, t.Context(), t.Context(),
			processingGroup("g", 1, src, &Sink{}))
		got := rec.of("g", engine.EventStopped)
		if len(got) != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "no such queue") {
			t.Errorf("got %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var rec record
		p := pipe(&Source{}, &Sink{})
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return shut{}, nil })})
		process(t, runtime.Options{Hooks: []engine.Hook{rec.hook}}, t.Context(), t.Context(), p)
		if got := rec.of("test", engine.EventStopped); len(got) != 1 || !errors.Is(got[0].Err, errShut) {
			t.Errorf("one that does not open: %v", got)
		}
	})
}

// shut is an input whose Open fails.
type shut struct{}

var errShut = errors.New("shut")

func (shut) Open(context.Context) error                                { return errShut }
func (shut) Read(context.Context, *engine.Batch) (engine.Acker, error) { return nil, engine.ErrEnd }
