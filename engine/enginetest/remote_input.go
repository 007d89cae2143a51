package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
)

// RemoteInput describes an input that reads from a server, for its conformance suite.
type RemoteInput struct {
	// Reach starts a server that ends with the test, and connects wire to it; see [Wire.Over]. It returns an input that
	// reaches the server through wire, as a component written as JSON.
	Reach func(t *testing.T, wire *Wire) (component string)
	// Send gives the server messages to deliver, in this order. It does not use the wire.
	Send func(t *testing.T, payloads ...string)
	// SendHeaders sends one message with headers, attributes or fields. nil: the server keeps nothing but payloads.
	SendHeaders func(t *testing.T, payload string, headers map[string]string)
	// Body returns the payload that was sent for the payload of a message. nil: they are equal.
	Body func(message string) (payload string)
	// Left returns how many messages the server would still deliver. nil: the server does not know.
	Left func(t *testing.T) int
	// Shared says that several instances share the messages.
	Shared bool
	// Lossy says that the server forgets messages when it has sent them, so that only messages that are sent while there is a
	// connection arrive.
	Lossy bool
	// Answers is how many of the first answers of a connection are cut off, one after the other; 0 means 8.
	Answers int

	drain time.Duration // how long the pipeline may take to end; 0: long
}

// Run is the conformance suite of inputs with a connection. A pipeline reads from a server that is not there at first, and
// whose connections end in the middle of their first, second, third … answer. All messages are delivered in order and
// acknowledged, and only a stop ends the input.
func (in RemoteInput) Run(t *testing.T) {
	t.Run("a server that is not there at the start", func(t *testing.T) {
		r := in.start(t, 1, (*Wire).Refuse)
		until(t, "the input is restarting", func() bool { return r.input().State == "restarting" })
		r.wire.restore(t)
		r.connected(t)
		r.send(t, 3)
		r.delivered(t)
		r.end(t)
	})
	t.Run("a connection that ends at each answer", func(t *testing.T) {
		r := in.start(t, 1, func(*Wire) {})
		r.connected(t)
		r.send(t, 2)
		r.delivered(t)
		answers := in.Answers
		if answers == 0 {
			answers = 8
		}
		for n := 1; n <= answers; n++ {
			r.wire.CutEach(n)
			r.wire.closeConnections()
			if !in.Lossy {
				r.send(t, 2)
			}
			until(t, fmt.Sprintf("a connection ends at answer %d, or lasts", n), func() bool {
				return r.wire.Broken() > 1 || r.input().State == "reading" && (in.Lossy || r.arrived())
			})
			r.wire.CutEach(0)
			r.wire.closeConnections()
			r.connected(t)
			if in.Lossy {
				r.send(t, 1)
			}
			r.delivered(t)
		}
		if !in.Lossy { // the input has noticed that the last connection is gone, and can act on what was delivered
			r.send(t, 1)
			r.delivered(t)
		}
		r.end(t)
	})
	t.Run("a pipeline that is paused", func(t *testing.T) {
		r := in.start(t, 1, func(*Wire) {})
		for range 3 {
			r.connected(t)
			r.send(t, 2)
			r.delivered(t)
			r.plan.Pause()
			until(t, "the input is paused", func() bool { return r.input().State == "paused" })
			if !in.Lossy {
				r.send(t, 1)
			}
			r.plan.Resume()
		}
		r.delivered(t)
		r.end(t)
	})
	t.Run("a server that never answers", func(t *testing.T) {
		short := in
		short.drain = 5 * time.Second
		r := short.start(t, 1, (*Wire).Hush)
		<-time.After(50 * time.Millisecond)
		promptly(t, func() { r.end(t) })
	})
	if in.SendHeaders != nil {
		t.Run("the context of a trace travels on", func(t *testing.T) {
			r := in.start(t, 1, func(*Wire) {})
			r.connected(t)
			r.sent = []string{`{"n":0}`}
			in.SendHeaders(t, r.sent[0], trace)
			r.delivered(t)
			r.end(t)
			for name, want := range trace {
				if r.added[name] != want {
					t.Errorf("%s is %v in the metadata that outputs pass on, want %q", name, r.added[name], want)
				}
			}
		})
	}
	if in.Shared {
		t.Run("several instances", func(t *testing.T) {
			r := in.start(t, 3, func(*Wire) {})
			r.connected(t)
			r.send(t, 20)
			r.delivered(t)
			r.wire.closeConnections()
			r.send(t, 20)
			r.delivered(t)
			r.end(t)
		})
	}
}

// reading is a pipeline that reads from a server through a wire.
type reading struct {
	RemoteInput
	plan  *runtime.Plan
	wire  *Wire
	dst   *Sink
	stop  context.CancelFunc
	ran   chan runtime.Report
	ended sync.Once
	sent  []string
	added map[string]any // what outputs pass on of a message that was delivered
}

// start starts a pipeline with a number of instances of the input. begin disturbs the wire first.
func (in RemoteInput) start(t *testing.T, instances int, begin func(*Wire)) *reading {
	t.Helper()
	r := &reading{RemoteInput: in, wire: newWire(t), dst: &Sink{}, ran: make(chan runtime.Report, 1)}
	r.dst.See = func(m *engine.Message) { r.added = maps.Collect(m.Meta.Added()) }
	use, _, problems := specOf[engine.Input](t, in.Reach(t, r.wire))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	begin(r.wire)
	p := &engine.Pipeline{Name: "test", Outputs: Named("out", r.dst.Output()),
		Inputs: Named("in", engine.InputSpec{Use: use, Concurrency: instances}),
		Engine: engine.EngineSpec{Workers: 2, OrderBy: expr.MustCompile(`"all"`),
			Restart: engine.Restart{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}}}
	p.Engine.Drain.Timeout = cmp.Or(in.drain, 20*time.Second) // enough to acknowledge on a busy machine
	plan, bad := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if plan == nil {
		t.Fatal(bad)
	}
	r.plan = plan
	stop, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ran <- plan.Run(stop, context.Background()) }()
	t.Cleanup(func() { r.finish() })
	return r
}

// input returns the state of the input.
func (r *reading) input() engine.InputState {
	if all := r.plan.Snapshot().Inputs; len(all) > 0 {
		return all[0]
	}
	return engine.InputState{}
}

// connected waits until the input reads.
func (r *reading) connected(t *testing.T) {
	t.Helper()
	until(t, "the input reads", func() bool { return r.plan.Snapshot().State == engine.Running && r.input().State == "reading" })
}

// send sends n more messages.
func (r *reading) send(t *testing.T, n int) {
	t.Helper()
	var all []string
	for range n {
		all = append(all, fmt.Sprintf(`{"n":%d}`, len(r.sent)+len(all)))
	}
	r.sent = append(r.sent, all...)
	r.Send(t, all...)
}

// once returns the payloads that were delivered, without duplicates.
func (r *reading) once() (all []string) {
	seen := map[string]bool{}
	for _, payload := range r.dst.Bodies() {
		if r.Body != nil {
			payload = r.Body(payload)
		}
		if !seen[payload] {
			seen[payload] = true
			all = append(all, payload)
		}
	}
	return all
}

func (r *reading) arrived() bool { return len(r.once()) == len(r.sent) }

// delivered waits until all messages that were sent are delivered and acknowledged.
func (r *reading) delivered(t *testing.T) {
	t.Helper()
	until(t, "all messages are delivered", r.arrived)
	until(t, "all messages are acknowledged", func() bool { return r.input().Unacked == 0 })
}

func (r *reading) finish() (rep runtime.Report, first bool) {
	r.ended.Do(func() {
		r.stop()
		rep, first = <-r.ran, true
	})
	return rep, first
}

// end stops the pipeline, and checks what it did.
func (r *reading) end(t *testing.T) {
	t.Helper()
	r.wire.restore(t)
	rep, _ := r.finish()
	if rep.Err != nil || !rep.Drained {
		t.Errorf("it ended by itself (drained: %t): %v", rep.Drained, rep.Err)
	}
	got := r.once()
	if r.Shared {
		slices.SortFunc(got, byNumber)
	}
	if !slices.Equal(got, r.sent) {
		t.Errorf("delivered %q, want %q", r.dst.Bodies(), r.sent)
	}
	if r.Left != nil && len(r.sent) > 0 {
		until(t, "nothing is left on the server", func() bool { return r.Left(t) == 0 })
	}
}

// byNumber compares payloads that end in numbers: longer ones have larger numbers.
func byNumber(x, y string) int {
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(x, y)
}
