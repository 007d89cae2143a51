package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/operations/history"
)

// text writes what is known of an id on one line.
func text(h *history.History, id string) string {
	var all []string
	for _, m := range h.Find(id).Messages {
		for _, e := range m.Events {
			line := fmt.Sprintf("%s %s", e.Name, e.Passage)
			if e.Error != nil {
				line += ": " + e.Error.Message
			}
			all = append(all, line)
		}
		end := m.Fate
		if m.Error != nil {
			end += ": " + m.Error.Message
		}
		all = append(all, end)
	}
	return strings.Join(all, ", ")
}

func TestAHistoryHasAttemptsAndFates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := history.New(expr.MustCompile("id"), 3)
		fails := 2
		step := Step("flaky", func(_ context.Context, m *engine.Message) error {
			switch string(m.Bytes()) {
			case `{"id":2}`:
				if fails--; fails >= 0 {
					return engine.Errorf(engine.Transient, "not now")
				}
			case `{"id":3}`:
				return engine.Errorf(engine.Permanent, "never")
			case `{"id":4}`:
				m.Drop()
			}
			return nil
		})
		src := &Source{Payloads: []string{`{"id":1}`, `{"id":2}`, `{}`, `{"id":3}`, `{"id":4}`}}
		p := &engine.Pipeline{Name: "p", Inputs: Named("in", src.Input()), Processors: engine.Steps{step},
			Outputs: Named("out", (&Sink{}).Output()), Engine: engine.EngineSpec{Workers: 1}}
		plan, problems := runtime.Build(p, runtime.Options{Observers: []engine.Observer{h}})
		if plan == nil {
			t.Fatal(problems)
		}
		plan.Run(t.Context(), t.Context())
		for id, want := range map[string]string{
			"1": "", // three messages were read after it
			"2": "in passed, flaky failed: not now, flaky failed: not now, flaky passed, out written, delivered",
			"3": "in passed, flaky failed: never, dropped: never",
			"4": "in passed, flaky filtered, filtered",
		} {
			if got := text(h, id); got != want {
				t.Errorf("%s: got %s, want %s", id, got, want)
			}
		}
		if f := h.Find("2"); f.Kept != 3 || f.Messages[0].Events[3].Seconds <= 0 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestTheEventsOfAMessageAreBounded(t *testing.T) {
	h := history.New(expr.MustCompile("id"), 1)
	tries := 0
	step := Step("flaky", func(context.Context, *engine.Message) error {
		if tries++; tries < 1000 {
			return engine.Errorf(engine.Transient, "%s", strings.Repeat("x", 10_000))
		}
		return nil
	})
	step.Retry = &engine.Retry{MaxAttempts: 1000, Intervals: []time.Duration{time.Millisecond}}
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{`{"id":"a"}`}}
		p := &engine.Pipeline{Name: "p", Inputs: Named("in", src.Input()), Processors: engine.Steps{step},
			Outputs: Named("out", (&Sink{}).Output())}
		plan, problems := runtime.Build(p, runtime.Options{Observers: []engine.Observer{h}})
		if plan == nil {
			t.Fatal(problems)
		}
		plan.Run(t.Context(), t.Context())
	})
	m := h.Find("a").Messages[0]
	n := len(m.Events)
	if n > 50 || m.Left != 1002-n || m.Events[0].Name != "in" || m.Events[n-1].Name != "out" || m.Fate != "delivered" {
		t.Errorf("%d events, %d left out, from %s to %s, %s", n, m.Left, m.Events[0].Name, m.Events[n-1].Name, m.Fate)
	}
	if size := len(fmt.Sprint(m.Events[2].Error)); size > 1000 {
		t.Errorf("an error has %d bytes", size)
	}
}
