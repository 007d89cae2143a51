//go:build !no_otel && (!slim || otel)

package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/operations/tracing"
)

// receiver keeps the spans that it gets.
type receiver struct {
	err   error         // the answer to all requests
	block chan struct{} // requests wait until it is closed; nil: they do not

	mu    sync.Mutex // guards the fields below
	spans []*tracepb.Span
}

func (r *receiver) Start(context.Context) error { return nil }

func (r *receiver) Stop(context.Context) error { return nil }

func (r *receiver) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, all[0].ScopeSpans[0].Spans...)
	return r.err
}

// roots returns the names and fates of the spans of messages.
func (r *receiver) roots() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if strings.HasPrefix(s.Name, "process ") {
			all = append(all, s.Name)
		}
	}
	return all
}

// numbers are the payloads 1 to n.
func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, strconv.Itoa(i+1))
	}
	return all
}

// run runs messages through a step, with a tracer, and returns how many reached the output.
func run(t *testing.T, o tracing.Options, src engine.Input, step engine.StepSpec) (delivered int, tracer *tracing.Tracer) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	tracer = tracing.New(o)
	return through(t, tracer, src, step), tracer
}

// through runs messages through a step, and returns how many reached the output.
func through(t *testing.T, tracer *tracing.Tracer, src engine.Input, step engine.StepSpec) (delivered int) {
	t.Helper()
	dst := &Sink{}
	p := &engine.Pipeline{Name: "p", Inputs: Named("in", engine.InputSpec{Use: engine.Use(
		func(engine.Env) (engine.Input, error) { return src, nil })}),
		Outputs: Named("out", dst.Output()), Processors: engine.Steps{step}}
	p.Engine.OnFailure.Then.Word = "drop"
	plan, problems := runtime.Build(p, runtime.Options{Tracer: tracer, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if plan == nil {
		t.Fatal(problems)
	}
	plan.Run(t.Context(), t.Context())
	return len(dst.Bodies())
}

func closeIt(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
}

var passes = Step("passes", func(context.Context, *engine.Message) error { return nil })

// TestWhichMessagesAreTraced counts the spans of 10,000 messages.
func TestWhichMessagesAreTraced(t *testing.T) {
	const n = 10_000
	fails := Step("fails", func(_ context.Context, m *engine.Message) error {
		if strings.HasSuffix(string(m.Bytes()), "00") {
			return errors.New("no")
		}
		return nil
	})
	flags := func(flag string) func(i int) string {
		return func(i int) string {
			return fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-%s", flag)
		}
	}
	for _, tt := range []struct {
		name     string
		o        tracing.Options
		step     engine.StepSpec
		parent   func(i int) string // the traceparent of a message; nil: none
		low, top int                // spans of messages
	}{
		{name: "all", o: tracing.Options{Sample: 1}, step: passes, low: n, top: n},
		{name: "none", step: passes},
		{name: "one in a hundred", o: tracing.Options{Sample: 0.01}, step: passes, low: 50, top: 160},
		{name: "nine in ten", o: tracing.Options{Sample: 0.9}, step: passes, low: 8800, top: 9200},
		{name: "those that the sender has sampled", step: passes, parent: flags("01"), low: n, top: n},
		{name: "not those that the sender has not sampled", o: tracing.Options{Sample: 1}, step: passes, parent: flags("00")},
		{name: "a traceparent that is not valid", o: tracing.Options{Sample: 1}, step: passes, parent: flags("zz"), low: n, top: n},
		{name: "by a condition", o: tracing.Options{SampleIf: new(expr.MustCond("this % 50 == 0"))}, step: passes, low: n / 50, top: n / 50},
		{name: "those that fail", o: tracing.Options{Failed: true}, step: fails, low: n / 100, top: n / 100},
		{name: "not those that fail", step: fails},
		{name: "those that take long", o: tracing.Options{Slower: time.Nanosecond}, step: passes, low: n, top: n},
		{name: "not those that take less long", o: tracing.Options{Slower: time.Hour}, step: passes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", strconv.Itoa(1<<20))
			r := &receiver{}
			tt.o.Client = r
			src := &Source{Payloads: numbers(n)}
			if tt.parent != nil {
				src.Prepare = func(i int, m *engine.Message) { m.Meta = engine.Meta{}.With("traceparent", tt.parent(i)) }
			}
			_, tracer := run(t, tt.o, src, tt.step)
			closeIt(t, tracer)
			if got := len(r.roots()); got < tt.low || got > tt.top {
				t.Errorf("%d messages are traced, want %d to %d", got, tt.low, tt.top)
			}
			if _, dropped := tracer.Counts(); dropped > 0 {
				t.Errorf("%d spans were dropped", dropped)
			}
		})
	}
}

// TestAReceiverThatTakesNothing lets requests fail, or never end. All messages are delivered, and no more spans wait than may.
func TestAReceiverThatTakesNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    *receiver
	}{
		{"it refuses", &receiver{err: errors.New("full")}},
		{"it never answers", &receiver{block: make(chan struct{})}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
			var log strings.Builder
			const n = 50_000
			delivered, tracer := run(t, tracing.Options{Sample: 1, Client: tt.r, Log: slog.New(slog.NewTextHandler(&log, nil))},
				&Source{Payloads: numbers(n)}, passes)
			if delivered != n {
				t.Errorf("%d messages are delivered, want %d", delivered, n)
			}
			if tt.r.block != nil {
				close(tt.r.block)
			}
			closeIt(t, tracer)
			sent, dropped := tracer.Counts()
			if dropped == 0 {
				t.Error("no spans are counted as dropped")
			}
			if tt.r.err == nil && sent > 210 {
				t.Errorf("%d spans were sent late, want at most those that may wait", sent)
			}
			if lines := strings.Count(log.String(), "spans can't be sent by OTLP"); tt.r.err != nil && lines != 1 {
				t.Errorf("the outage was logged %d times:\n%s", lines, log.String())
			}
		})
	}
}

// TestSpansOfPlugins begins a span in the context of a step, and in that of an output.
func TestSpansOfPlugins(t *testing.T) {
	r := &receiver{}
	step := Step("mine", func(ctx context.Context, _ *engine.Message) error {
		_, s := otel.Tracer("mine").Start(ctx, "inside")
		s.End()
		return nil
	})
	for _, sample := range []float64{0, 1} {
		tracer := tracing.New(tracing.Options{Sample: sample, Client: r, Resource: resource.Empty(), Log: slog.Default()})
		through(t, tracer, &Source{Payloads: numbers(1)}, step)
		closeIt(t, tracer)
	}
	names := map[string]*tracepb.Span{}
	for _, s := range r.spans {
		names[s.Name] = s
	}
	inside, mine := names["inside"], names["step mine"]
	if len(r.spans) != 4 || inside == nil || mine == nil || !bytes.Equal(inside.ParentSpanId, mine.SpanId) {
		t.Errorf("the span of the plugin is %v, and that of its step %v", inside, mine)
	}
}
