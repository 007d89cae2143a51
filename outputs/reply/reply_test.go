package reply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	_ "github.com/flowd-io/flowd/inputs/pipe"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/outputs/pipe"
	"github.com/flowd-io/flowd/schema"
)

// decoded returns an output or input from JSON.
func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	steptest.Decode(t, text, &v)
	return v
}

func spec(t *testing.T, text string) engine.OutputSpec {
	t.Helper()
	return decoded[engine.OutputSpec](t, text)
}

// requests returns messages of one request that waits on a desk.
type requests struct {
	*enginetest.Source
	shared *engine.Shared
	slip   *reply.Slip
}

func waiting(payloads ...string) *requests {
	r := &requests{shared: &engine.Shared{}}
	r.slip = reply.Of(r.shared).Open(engine.Meta{}.With("x", 1), len(payloads), &reply.Room{Max: 1 << 20})
	r.Source = &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne,
		Prepare: func(i int, m *engine.Message) { r.slip.Mark(m, i, false) }}
	return r
}

// run runs pipelines side by side, in one process.
func (r *requests) run(t *testing.T, all ...*engine.Pipeline) {
	t.Helper()
	var plans []*runtime.Plan
	for i, p := range all {
		p.Name = fmt.Sprint("p", i)
		plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.DiscardHandler), Shared: r.shared})
		if plan == nil {
			t.Fatal(problems)
		}
		plans = append(plans, plan)
	}
	var wg sync.WaitGroup
	for _, plan := range plans {
		wg.Go(func() {
			rep := plan.Run(context.Background(), context.Background())
			if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 || rep.Err != nil {
				t.Errorf("%+v, %v", c, rep.Err)
			}
		})
	}
	wg.Wait()
}

func body(t *testing.T, s *reply.Slip, i int) string {
	t.Helper()
	r, ok := s.Take(i, false)
	if !ok {
		return "nothing"
	}
	return string(r.Body)
}

func TestEachMessageHasItsReply(t *testing.T) {
	r := waiting("a", "b")
	r.run(t, &engine.Pipeline{
		Inputs: enginetest.Named("in", r.Input()),
		Outputs: enginetest.Named("out",
			spec(t, `{"reply": {"status": "201", "headers": {"x-n": "$(raw())"}, "body": "raw() + raw()"}}`)),
	})
	for i, want := range []string{"aa", "bb"} {
		got, _ := r.slip.Take(i, false)
		if string(got.Body) != want || got.Status != 201 || got.Header.Get("X-N") != r.Payloads[i] {
			t.Errorf("got %+v", got)
		}
	}
}

// TestAReplyOfWhatFailedIsTakenAway uses a pipe that delivers a failed message again. Its reply counts once.
func TestAReplyOfWhatFailedIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := waiting("a")
		tries := 0
		other := (&enginetest.Sink{Fail: func(string) error {
			if tries++; tries < 3 {
				return errors.New("down")
			}
			return nil
		}}).Output()
		other.Retry = &engine.Retry{MaxAttempts: 1}
		back := &engine.Pipeline{
			Inputs: enginetest.Named("in", decoded[engine.InputSpec](t, `{"pipe": "work"}`)),
			Outputs: schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "answer", Value: spec(t, `{"reply": {}}`)},
				schema.Entry[engine.OutputSpec]{Key: "other", Value: other}),
			Batchers: enginetest.Named("all", engine.BatcherSpec{Output: engine.Names{"answer", "other"}}),
		}
		on := spec(t, `{"pipe": "work"}`)
		on.Retry = &engine.Retry{Intervals: []time.Duration{time.Second}}
		r.run(t, &engine.Pipeline{Inputs: enginetest.Named("in", r.Input()), Outputs: enginetest.Named("on", on)}, back)
		if got := body(t, r.slip, 0); tries != 3 || got != "a" {
			t.Errorf("%d tries, then %s", tries, got)
		}
		if got := r.Results()["a"].Fate; got != engine.Delivered {
			t.Errorf("a is %s", got)
		}
	})
}

func TestAMessageWithoutARequestFails(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"nothing", "invented", "set", "another index"}, Takes: engine.TakesOne}
	r := waiting("x")
	src.Prepare = func(i int, m *engine.Message) {
		switch i {
		case 1:
			m.Meta = engine.Meta{}.With("http_request", "x").Own().WithIndex("http_record")
		case 2:
			r.slip.Mark(m, 0, false)
			token, _ := m.Meta.Get("http_request")
			m.Meta = engine.Meta{}.With("http_request", token).WithIndex("http_record")
		case 3:
			r.slip.Mark(m, 1, false)
		}
	}
	r.run(t, &engine.Pipeline{Inputs: enginetest.Named("in", src.Input()),
		Outputs: enginetest.Named("out", spec(t, `{"reply": {}}`))})
	for body, res := range src.Results() {
		if res.Err == nil || res.Err.Class != engine.Permanent ||
			!strings.Contains(res.Err.Error(), "there is no request to answer") {
			t.Errorf("%s: %s, %v", body, res.Fate, res.Err)
		}
	}
	if got := body(t, r.slip, 0); got != "nothing" {
		t.Errorf("got %s", got)
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                                   "",
		`{"status": 204}`:                      "",
		`{"status": "$(code)"}`:                "",
		`{"status": 100}`:                      `"100" is not a status from 200 to 599`,
		`{"status": "ok"}`:                     `"ok" is not a status`,
		`{"headers": {"a b": "x"}}`:            "is not a valid header name",
		`{"headers": {"content-length": "1"}}`: "is set by the answer itself",
		`{"code": 1}`:                          "write `status`",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Outputs, `{"reply": `+config+`}`), "\n")
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
}
