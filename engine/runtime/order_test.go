package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
)

// processor is a function as a Processor.
type processor func(b *engine.Batch) error

func (p processor) Process(_ context.Context, b *engine.Batch) error { return p(b) }

// While a message is retried or parked, later messages of its key reach no further step, whether they are in the same slab or not.
func TestLaterStepsSeeAKeyInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		failed := false
		fails := Step("fails", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == `{"n":3}` && !failed {
				failed = true
				return engine.Errorf(engine.Transient, "once")
			}
			return nil
		})
		parks := Step("parks", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == `{"n":7}` {
				m.Delay(time.Second)
			}
			return nil
		})
		log := Step("log", func(_ context.Context, m *engine.Message) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, string(m.Bytes()))
			return nil
		})
		src := &Source{Payloads: numbers(40), PerRead: 10, Every: 100 * time.Millisecond}
		p := pipe(src, &Sink{}, fails, log, parks, log)
		p.Engine.OrderBy = expr.MustCompile(`n % 2`)
		p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 2, Backoff: time.Second}
		Run(t, p, nil)
		first := map[string]bool{}
		for k := range 2 { // each log sees the numbers of a key in order
			var n [2]int
			for _, body := range seen {
				var got int
				if _, err := fmt.Sscanf(body, `{"n":%d}`, &got); err != nil || got%2 != k {
					continue
				}
				at := 0
				if first[body] {
					at = 1
				}
				first[body] = true
				if got < n[at] {
					t.Errorf("log %d saw %d after %d", at, got, n[at])
				}
				n[at] = got
			}
		}
		if len(seen) != 80 {
			t.Errorf("%d messages were seen, want 40 twice", len(seen))
		}
	})
}

// The order key can often be found in a payload that is not a valid document. Such a message fails nevertheless.
func TestAnOrderKeyInAnInvalidDocument(t *testing.T) {
	calls := Step("calls", func(context.Context, *engine.Message) error { return nil })
	for name, steps := range map[string]engine.Steps{"lanes find the keys": nil, "the reader finds them": {calls}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Takes: engine.TakesOne, Payloads: []string{`{"k":"a"}`, `{"k":"a",}`, `{"k":"b"} {}`,
					`{"k":tru}`, "{\"k\":\"\xff\"}", `{"k":"b"}`}}
				out := &Sink{}
				p := &engine.Pipeline{Inputs: Named("in", src.Input()), Processors: steps, Outputs: Named("out", out.Output())}
				p.Engine.Workers, p.Engine.OrderBy = 3, expr.MustCompile("k")
				Run(t, p, nil)
				for body, r := range src.Results() {
					switch good := body == `{"k":"a"}` || body == `{"k":"b"}`; {
					case good && r.Fate != engine.Delivered:
						t.Errorf("%s ended as %v: %v", body, r.Fate, r.Err)
					case !good && (r.Err == nil || r.Err.Step != "order_by" || r.Err.Class != engine.Decode):
						t.Errorf("%s ended as %v: %v", body, r.Fate, r.Err)
					}
				}
				if n := len(out.Bodies()); n != 2 || len(src.Results()) != 6 {
					t.Errorf("%d written, %d ended", n, len(src.Results()))
				}
			})
		})
	}
}

// If steps only edit messages, those of one key are processed in parallel, and leave the steps in order.
func TestStepsThatEditKeepOrder(t *testing.T) {
	n := expr.MustCompile("n")
	slow := func(_ context.Context, m *engine.Message) error {
		v, err := n.Eval(m)
		if err == nil {
			time.Sleep(time.Duration(10-v.(int)) * time.Second) // the first takes longest
		}
		return err
	}
	counter := expr.MustCompile(`counter("x")`)
	tests := []struct {
		name string
		step engine.Processor
		took time.Duration
	}{
		{"an edit", engine.Edit{ProcessorFunc: slow}, 10 * time.Second},
		{"an edit that counts", engine.Edit{ProcessorFunc: slow, Calls: counter.Calls()}, 34 * time.Second},
		{"any other step", engine.ProcessorFunc(slow), 34 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, out := &Source{Payloads: numbers(4), PerRead: 1}, &Sink{}
				p := pipe(src, out, engine.StepSpec{Name: "slow", Use: Processing(tt.step)})
				p.Engine.Workers, p.Engine.OrderBy = 4, expr.MustCompile(`"one"`)
				began := time.Now()
				Run(t, p, nil)
				if took := time.Since(began).Round(time.Second); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if got := out.Bodies(); !slices.Equal(got, numbers(4)) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// If a failed message stops the pipeline, later messages of its key go back to the source with it.
func TestNothingOvertakesAMessageThatStopsThePipeline(t *testing.T) {
	broken := func(class engine.Class) func(string) error {
		return func(body string) error {
			if body == `{"n":20}` {
				return engine.Errorf(class, "broken")
			}
			return nil
		}
	}
	rejects := broken(engine.Rejected)
	fails := Step("fails", func(_ context.Context, m *engine.Message) error { return rejects(string(m.Bytes())) })
	for _, tt := range []struct {
		name  string
		fail  func(string) error
		steps engine.Steps
	}{
		{"an output refuses it", broken(engine.Rejected), nil},
		{"an output fails it again and again", broken(engine.Transient), nil},
		{"a step fails it", nil, engine.Steps{fails}},
	} {
		for _, perRead := range []int{1, 7, 40} {
			t.Run(fmt.Sprintf("%s, of %d", tt.name, perRead), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := &Source{Payloads: numbers(40), PerRead: perRead, Takes: engine.TakesPosition}
					out := &Sink{Fail: tt.fail, Delay: time.Millisecond}
					p := pipe(src, out, tt.steps...)
					p.Engine.Workers, p.Engine.OrderBy = 2, expr.MustCompile(`"one"`)
					sink := p.Outputs.Entries()[0].Value
					sink.Concurrency = 3
					p.Outputs = Named("out", sink)
					if rep := Run(t, p, nil); rep.Err == nil {
						t.Error("it did not stop")
					}
					if got := out.Bodies(); !slices.Equal(got, numbers(40)[:len(got)]) || len(got) > 20 {
						t.Errorf("written: %v", got)
					}
				})
			})
		}
	}
}
