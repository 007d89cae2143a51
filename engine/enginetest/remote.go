package enginetest

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Remote describes an output that writes to a server, for its conformance suite.
type Remote struct {
	// Reach starts a server that ends with the test, and connects wire to it; see [Wire.Over]. The function that it returns
	// makes an output, not open yet, that reaches the server through wire. It is called again when a write hangs.
	Reach func(t *testing.T, wire *Wire) (output func() engine.Output)
	// Arrived returns the payloads that the server has, in the order of their arrival. It is called once per server, at the
	// end.
	Arrived  func(t *testing.T) []string
	Payloads []string // five or more, all different
	// Greets says that the server must answer before it gets a message, so that nothing is written to a server that never
	// answers. Otherwise, a message that is sent and not answered counts as an attempt.
	Greets bool
	// Headers returns the headers, attributes or fields by name of the message that has arrived, which is the only one. nil: the
	// server keeps nothing but payloads.
	Headers func(t *testing.T) map[string]string
}

// Outage is the environment variable that says how long servers are down in [Remote.Run], such as "60s"; 500ms by default.
const Outage = "FLOWD_TEST_OUTAGE"

// Run is the conformance suite of outputs with a connection. A pipeline with a dead letter and two attempts writes to a
// server that goes down and comes back. All messages arrive in order, and none is dead-lettered. The output is reported as
// failing while the server is down, and recovers by itself.
func (o Remote) Run(t *testing.T) {
	away, err := time.ParseDuration(cmp.Or(os.Getenv(Outage), "500ms"))
	if err != nil {
		t.Fatal(err)
	}
	if o.Headers != nil {
		t.Run("the context of a trace arrives", func(t *testing.T) {
			out, b := o.Reach(t, newWire(t))(), Batch(o.Payloads[0])
			for m := range b.All() {
				for name, value := range trace {
					m.Meta = m.Meta.With(name, value)
				}
			}
			opened(t, out)
			if fates := WriteFates(b, out.Write(t.Context(), b)); slices.Contains(fates, "failed") {
				t.Error(fates)
			}
			closed(t, out)
			got := o.Headers(t)
			for name, want := range trace {
				if got[name] != want {
					t.Errorf("%s arrived as %q, want %q", name, got[name], want)
				}
			}
		})
	}
	for _, tt := range []struct {
		name     string
		begins   func(*Wire)
		attempts int
		timeout  time.Duration
		least    time.Duration // that the server is away
	}{
		{"it refuses connections", (*Wire).Refuse, 2, 30 * time.Second, 0},
		{"it is cut off in the middle of an answer", (*Wire).Cut, 2, 30 * time.Second, 0},
		{"it accepts connections and never answers", (*Wire).Hush, map[bool]int{true: 2}[o.Greets], time.Second, 3 * time.Second}, // two attempts
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t)
			output, src, dlq := o.Reach(t, w), &tap{came: make(chan string, len(o.Payloads))}, &Sink{}
			p := &engine.Pipeline{Name: "test",
				Inputs: Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })}),
				Outputs: schema.MapOf(
					schema.Entry[engine.OutputSpec]{Key: "out", Value: engine.OutputSpec{Timeout: tt.timeout,
						Use:     engine.Use(func(engine.Env) (engine.Output, error) { return output(), nil }),
						Retry:   &engine.Retry{MaxAttempts: tt.attempts, Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond},
						Breaker: &engine.Breaker{Failures: 10, Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond}}},
					schema.Entry[engine.OutputSpec]{Key: "dlq", Value: dlq.Output()}),
				Engine: engine.EngineSpec{Workers: 2, OrderBy: expr.MustCompile(`"all"`)}}
			p.Engine.OnFailure.DeadLetter = "dlq"
			plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if plan == nil {
				t.Fatal(problems)
			}
			ran := make(chan runtime.Report, 1)
			stop, end := context.WithCancel(t.Context())
			defer end()
			go func() { ran <- plan.Run(stop, context.Background()) }()

			src.came <- o.Payloads[0]
			until(t, "the first message is delivered", func() bool { return src.ended() == 1 })
			tt.begins(w)
			for _, payload := range o.Payloads[1:] {
				src.came <- payload
			}
			close(src.came)
			began, away := time.Now(), max(away, tt.least)
			until(t, "the output is failing", func() bool { return failing(plan) })
			<-time.After(time.Until(began.Add(away)))
			if !failing(plan) {
				t.Errorf("after %v, health does not show that the server is away: %+v", away, outputOf(plan))
			}
			w.restore(t)
			select {
			case rep := <-ran:
				o.check(t, rep, src, dlq)
				if failing(plan) {
					t.Errorf("it is still failing at the end: %+v", outputOf(plan))
				}
			case <-time.After(3 * patience):
				t.Errorf("it does not go on by itself; %d of %d messages are delivered: %+v", src.ended(), len(o.Payloads), outputOf(plan))
				end()
				<-ran
			}
		})
	}
}

func (o Remote) check(t *testing.T, rep runtime.Report, src *tap, dlq *Sink) {
	t.Helper()
	if rep.Code() != 0 || len(rep.Failures) > 0 {
		t.Errorf("code %d, failures %+v, err %v", rep.Code(), rep.Failures, rep.Err)
	}
	if all := dlq.Bodies(); len(all) > 0 {
		t.Errorf("dead-lettered: %q", all)
	}
	if n := rep.Stats.Roots.Ended[engine.Delivered]; n != int64(len(o.Payloads)) || src.ended() != len(o.Payloads) {
		t.Errorf("%d delivered and %d acknowledged of %d", n, src.ended(), len(o.Payloads))
	}
	got := o.Arrived(t)
	var once []string // a message whose answer was lost may come twice
	for _, payload := range got {
		if !slices.Contains(once, payload) {
			once = append(once, payload)
		}
	}
	if want := o.Payloads; !slices.Equal(once, want) {
		t.Errorf("arrived: %q, want %q", got, want)
	}
}

// trace is the context of a trace, from the examples of the W3C.
var trace = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	"tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "baggage": "userId=alice,serverNode=DF%2028"}

// failing says whether the output "out" is not ready.
func failing(plan *runtime.Plan) bool {
	return outputOf(plan).Err != "" || slices.ContainsFunc(plan.Snapshot().Troubles, func(x engine.Trouble) bool {
		return x.Place == "output out"
	})
}

// outputOf returns the state of the output "out".
func outputOf(plan *runtime.Plan) engine.OutputState {
	for _, s := range plan.Snapshot().Outputs {
		if s.Name == "out" {
			return s
		}
	}
	return engine.OutputState{}
}

// until waits until f holds.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for late := time.Now().Add(3 * patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("not within %v: %s", 3*patience, what)
		}
	}
}

// tap is an input that yields payloads from a channel, one per Read.
type tap struct {
	came chan string

	mu   sync.Mutex // guards the field below
	told int        // results
}

// Read waits for a message.
func (s *tap) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	select {
	case payload, more := <-s.came:
		if !more {
			return s, engine.ErrEnd
		}
		b.Add([]byte(payload))
	case <-ctx.Done():
	}
	return s, nil
}

// Traits says that messages are acknowledged one by one.
func (*tap) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// Ack counts what was delivered.
func (s *tap) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		if r.Fate == engine.Delivered {
			s.told++
		}
	}
	return nil, nil
}

func (s *tap) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}
