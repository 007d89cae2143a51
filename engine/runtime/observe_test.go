package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// witness writes down what it observes, by the payload that each message was read with.
type witness struct {
	mu   sync.Mutex // guards the fields below
	read map[engine.Origin]string
	saw  map[string][]string
	ends map[string]int
}

func newWitness() *witness {
	return &witness{read: map[engine.Origin]string{}, saw: map[string][]string{}, ends: map[string]int{}}
}

func (w *witness) Wants(at *engine.Spot, n int) int { return n }

func (w *witness) Before(at *engine.Spot, m *engine.Message) any { return string(m.Bytes()) }

func (w *witness) After(at *engine.Spot, before any, _ *engine.Batch, m *engine.Message, how engine.Passage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%s %s %s", at.Kind, at.Name, how)
	if after := string(m.Bytes()); before != nil && before != after {
		text += fmt.Sprintf(" %s→%s", before, after)
	}
	if how == engine.FailedThere {
		text += ": " + m.Err().Err.Error()
	}
	for _, o := range m.Origins(nil) {
		if at.Kind == engine.InputSpot {
			w.read[o] = string(m.Bytes())
		}
		w.saw[w.read[o]] = append(w.saw[w.read[o]], text)
	}
}

func (w *witness) Ended(o engine.Origin, f engine.Fate, err *engine.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := w.read[o]
	w.ends[body]++
	w.saw[body] = append(w.saw[body], "end "+f.String())
	delete(w.read, o)
}

func TestAnObserverSeesEveryPassage(t *testing.T) {
	fails := 0
	odd := Step("odd", func(_ context.Context, m *engine.Message) error {
		if m.SetBytes(append(m.Bytes(), 'x')); strings.HasPrefix(string(m.Bytes()), "3") {
			m.Drop()
		}
		return nil
	})
	odd.When = expr.MustCond("this != 2")
	step := Step("flaky", func(_ context.Context, m *engine.Message) error {
		switch {
		case string(m.Bytes()) == "1x" && fails == 0:
			fails++
			return engine.Errorf(engine.Transient, "not now")
		case string(m.Bytes()) == "4x":
			return errors.New("never")
		}
		return nil
	})
	step.Retry = &engine.Retry{MaxAttempts: 2, Backoff: time.Millisecond, MaxBackoff: time.Millisecond}
	src, dst, dead := &Source{Payloads: []string{"1", "2", "3", "4"}}, &Sink{}, &Sink{}
	p := pipe(src, dst, odd, step)
	p.Engine.Workers = 1
	p.Outputs = schema.MapOf(append(p.Outputs.Entries(), entry("dead", engine.OutputSpec{Use: engine.Use(
		func(engine.Env) (engine.Output, error) { return dead, nil })}))...)
	p.Engine.OnFailure.DeadLetter = "dead"
	w := newWitness()
	plan, problems := runtime.Build(p, runtime.Options{Observers: []engine.Observer{w}})
	if plan == nil {
		t.Fatal(problems)
	}
	plan.Run(t.Context(), t.Context())
	want := map[string][]string{
		"1": {"input in passed", "step odd passed 1→1x", "step flaky failed: not now", "step flaky passed", "output out written",
			"end delivered"},
		"2": {"input in passed", "step odd skipped", "step flaky passed", "output out written", "end delivered"},
		"3": {"input in passed", "step odd filtered 3→3x", "end filtered"},
		"4": {"input in passed", "step odd passed 4→4x", "step flaky failed: never", "output dead written", "end dead_lettered"},
	}
	for body, all := range want {
		if !slices.Equal(w.saw[body], all) {
			t.Errorf("%s: got %q\nwant %q", body, w.saw[body], all)
		}
	}
	if len(w.read) != 0 {
		t.Errorf("%d messages have not ended", len(w.read))
	}
}

// observed checks that an observer sees each message of a world begin and end once, and in between only where it may be.
type observed struct {
	*world
	mu    sync.Mutex // guards the fields below
	open  map[engine.Origin]bool
	ended int64
}

func (o *observed) Wants(_ *engine.Spot, n int) int { return n }

func (o *observed) Before(_ *engine.Spot, m *engine.Message) any {
	lookAt(m)
	return m
}

// lookAt reads everything of a message that an observer may read, for the race detector.
func lookAt(m *engine.Message) {
	_, _, _ = m.Bytes(), m.Meta.Map(), m.BatchKey()
}

func (o *observed) After(at *engine.Spot, before any, _ *engine.Batch, m *engine.Message, how engine.Passage) {
	lookAt(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if before != nil && before != m {
		o.t.Errorf("%s: after is not called for the message of before", at.Name)
	}
	if how == engine.FailedThere && m.Err() == nil {
		o.t.Errorf("%s: a message has failed without an error", at.Name)
	}
	for _, origin := range m.Origins(nil) {
		switch {
		case at.Kind == engine.InputSpot && o.open[origin]:
			o.t.Error("a message was read twice")
		case at.Kind == engine.InputSpot:
			o.open[origin] = true
		}
	}
}

func (o *observed) Ended(origin engine.Origin, _ engine.Fate, _ *engine.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open[origin] {
		o.t.Error("a message has ended that was not read, or twice")
	}
	delete(o.open, origin)
	o.ended++
}

// check compares what was observed with the counts.
func (o *observed) check(roots engine.Counts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counted := int64(0)
	for _, n := range roots.Ended {
		counted += n
	}
	if o.ended != counted || len(o.open) > 0 && o.successor == nil {
		o.t.Errorf("observed %d ends and %d messages that have not ended, the counts say %d ends", o.ended, len(o.open), counted)
	}
}

func TestHooksGetEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := Step("slow", func(_ context.Context, m *engine.Message) error {
			time.Sleep(time.Second)
			if string(m.Bytes()) == "2" {
				return errors.New("not 2")
			}
			return nil
		})
		var rec record
		p := pipe(&Source{Payloads: []string{"1", "2"}}, &Sink{}, slow)
		p.Engine.Workers, p.Engine.OnFailure.Then.Word = 1, "drop"
		plan, problems := runtime.Build(p, runtime.Options{Hooks: []engine.Hook{rec.hook}})
		if plan == nil {
			t.Fatal(problems)
		}
		plan.Run(t.Context(), t.Context())
		for _, want := range []struct {
			kind engine.EventKind
			all  []string
		}{
			{engine.EventStep, []string{"slow 1 1s <nil>", "slow 1 1s not 2"}},
			{engine.EventWrite, []string{"out 1 0s <nil>"}},
		} {
			var all []string
			for _, e := range rec.of(p.Name, want.kind) {
				all = append(all, fmt.Sprint(e.Name, " ", e.N, " ", e.Took, " ", e.Err))
			}
			if !slices.Equal(all, want.all) {
				t.Errorf("%s: got %q, want %q", want.kind, all, want.all)
			}
		}
	})
}
