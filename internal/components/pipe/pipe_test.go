package pipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"go.uber.org/goleak"
)

// writer and reader are the plugins around a link, as small as they can be.
type writer struct{ *Link }

func (w writer) Write(ctx context.Context, b *engine.Batch) error {
	w.Link.Write(ctx, b)
	return nil
}

func (w writer) Close(context.Context) error {
	w.EndWriter()
	return nil
}

type reader struct{ *Reader }

func (r reader) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesOne, Follows: "x"}
}

func (r reader) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	return r.Reader, r.Reader.Read(ctx, b)
}

func (r reader) Close(context.Context) error {
	r.Reader.Close()
	r.link.EndReader()
	return nil
}

// linked runs two pipelines with a link between them.
func linked(t *testing.T, payloads []string, dst *enginetest.Sink) (upstream, downstream runtime.Report) {
	t.Helper()
	shared := &engine.Shared{}
	src := &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne}
	plans := make([]*runtime.Plan, 2)
	for i, spec := range []*engine.Pipeline{
		{
			Name:   "up",
			Inputs: enginetest.Named("in", src.Input()),
			Outputs: enginetest.Named("out",
				engine.OutputSpec{Use: engine.Use(func(env engine.Env) (engine.Output, error) {
					l := Of(env.Shared, "x")
					l.AddWriter()
					return writer{l}, nil
				})}),
		},
		{
			Name: "down",
			Inputs: enginetest.Named("in", engine.InputSpec{Use: engine.Use(func(env engine.Env) (engine.Input, error) {
				l := Of(env.Shared, "x")
				l.AddReader()
				return reader{l.NewReader()}, nil
			})}),
			Outputs: enginetest.Named("out", dst.Output()),
		},
	} {
		plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.DiscardHandler), Shared: shared})
		for _, p := range problems {
			if !p.Warning {
				t.Fatal(p)
			}
		}
		plans[i] = plan
	}
	var wg sync.WaitGroup
	wg.Go(func() { upstream = plans[0].Run(context.Background(), context.Background()) })
	wg.Go(func() { downstream = plans[1].Run(context.Background(), context.Background()) })
	wg.Wait()
	return upstream, downstream
}

func TestPipelinesAreLinked(t *testing.T) {
	defer goleak.VerifyNone(t)
	var payloads []string
	for i := range 5000 {
		payloads = append(payloads, fmt.Sprint(i))
	}
	dst := &enginetest.Sink{}
	up, down := linked(t, payloads, dst)
	got := slices.Sorted(slices.Values(dst.Bodies()))
	slices.Sort(payloads)
	if !slices.Equal(got, payloads) {
		t.Errorf("%d messages came over, want %d", len(got), len(payloads))
	}
	for _, r := range []runtime.Report{up, down} {
		if r.Err != nil || r.Stats.Roots.Ended[engine.Delivered] != 5000 || r.Code() != 0 {
			t.Errorf("%s: %v, %+v", r.Pipeline, r.Err, r.Stats.Roots)
		}
	}
}

// parked writes a batch to a link and reports how its messages end.
func parked(ctx context.Context, t *testing.T, l *Link, payloads ...string) <-chan runtime.Report {
	t.Helper()
	src := &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne}
	reports := make(chan runtime.Report, 1)
	plan, problems := runtime.Build(&engine.Pipeline{
		Inputs: enginetest.Named("in", src.Input()),
		Outputs: enginetest.Named("out", engine.OutputSpec{Timeout: 50 * time.Millisecond,
			Use: engine.Use(func(engine.Env) (engine.Output, error) { return writer{l}, nil })}),
	}, runtime.Options{Log: slog.New(slog.DiscardHandler)})
	for _, p := range problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	go func() { reports <- plan.Run(ctx, context.Background()) }()
	return reports
}

func TestTheFateThereIsTheFateHere(t *testing.T) {
	tests := []struct {
		name string
		res  engine.Result
		want engine.Fate
		text string
	}{
		{"delivered", engine.Result{Fate: engine.Delivered}, engine.Delivered, ""},
		{"filtered", engine.Result{Fate: engine.Filtered}, engine.Filtered, ""},
		{"dead-lettered", engine.Result{Fate: engine.DeadLettered, Err: engine.Errorf(engine.Decode, "no")},
			engine.DeadLettered, ""},
		{"dropped on purpose", engine.Result{Fate: engine.Dropped}, engine.Dropped, ""},
		{"returned", engine.Result{Fate: engine.Returned, Err: &engine.Error{Class: engine.Rejected, Step: "check",
			Err: errors.New("no")}}, engine.Returned, "pipe x: step check: no"},
		{"dropped as failed", engine.Result{Fate: engine.Dropped, Err: engine.Errorf(engine.Decode, "no")},
			engine.Returned, "pipe x: no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			l := Of(nil, "x")
			l.AddWriter()
			l.AddReader()
			reports := parked(t.Context(), t, l, "a")
			r, b := l.NewReader(), engine.NewBatch(5)
			if err := r.Read(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for m := range b.All() {
				res := tt.res
				res.Ref = m.Ref
				if _, err := r.Ack(t.Context(), []engine.Result{res}); err != nil {
					t.Fatal(err)
				}
			}
			report := <-reports
			if report.Stats.Roots.Ended[tt.want] != 1 {
				t.Errorf("got %+v, want %v", report.Stats.Roots, tt.want)
			}
			if tt.text != "" && (len(report.Failures) != 1 || report.Failures[0].First.Message != tt.text ||
				tt.res.Err.Class != report.Failures[0].First.Class) {
				t.Errorf("got %+v, want %q", report.Failures, tt.text)
			}
			if err := r.Read(t.Context(), b); err != engine.ErrEnd {
				t.Errorf("got %v, want the end with the last writer", err)
			}
		})
	}
}

func TestWhatIsNotTakenFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := Of(nil, "x")
	l.AddWriter()
	l.AddReader()
	reports := parked(t.Context(), t, l, "a", "b")
	r := l.NewReader()
	b := engine.NewBatch(1) // takes one of two, or of one
	if err := r.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		_, _ = r.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}})
	}
	report := <-reports
	if report.Stats.Roots.Ended[engine.Delivered] != 1 || report.Stats.Roots.Ended[engine.Returned] != 1 {
		t.Errorf("got %+v", report.Stats.Roots)
	}
	if len(report.Failures) != 1 || report.Failures[0].First.Class != engine.Timeout ||
		!strings.Contains(report.Failures[0].First.Message, "pipe x: not taken in time") {
		t.Errorf("got %+v", report.Failures)
	}
}

func TestAReaderThatHasEndedFailsWritesAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := Of(nil, "x")
	l.AddWriter()
	l.AddReader()
	l.EndReader()
	report := <-parked(t.Context(), t, l, "a")
	if len(report.Failures) != 1 ||
		report.Failures[0].First.Message != "pipe x: its reading pipeline has ended" {
		t.Errorf("got %+v", report.Failures)
	}
}

func TestKeyAndMetadataComeOver(t *testing.T) {
	l := Of(nil, "x")
	o := &offer{taken: make(chan struct{}), items: []item{{body: []byte("b"), key: []byte("k"),
		meta: engine.Meta{}.With("n", 1)}}}
	go func() { l.offers <- o }()
	b := engine.NewBatch(1)
	if err := l.NewReader().Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	<-o.taken
	for m := range b.All() {
		if v, _ := m.Meta.Get("n"); string(m.Key) != "k" || v != 1 || string(m.Bytes()) != "b" {
			t.Errorf("got key %q, meta %v, body %q", m.Key, m.Meta.Map(), m.Bytes())
		}
	}
}

func TestBothEndsAreNeeded(t *testing.T) {
	l := Of(nil, "x")
	if err := l.CheckReaders(); err == nil || !strings.Contains(err.Error(), `nothing reads from pipe "x"`) {
		t.Errorf("got %v", err)
	}
	if err := l.CheckWriters(); err == nil || !strings.Contains(err.Error(), `nothing writes to pipe "x"`) {
		t.Errorf("got %v", err)
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := Of(nil, "x")
	l.AddWriter()
	if err := l.NewReader().Read(ctx, engine.NewBatch(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What one reader leaves, be it half of a write, another takes: nothing fails.
func TestAReaderYieldsToItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Of(nil, "x")
		l.AddWriter()
		l.AddReader()
		l.AddReader()
		reports := parked(t.Context(), t, l, "a", "b", "c")
		old, next, seen := l.NewReader(), l.NewReader(), map[string]int{}
		take := func(r *Reader) error {
			b := engine.NewBatch(1)
			err := r.Read(t.Context(), b)
			for m := range b.All() {
				seen[string(m.Bytes())]++
				_, _ = r.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}})
			}
			return err
		}
		if err := take(old); err != nil {
			t.Fatal(err)
		}
		resume := old.Yield()
		if err := take(old); err != engine.ErrEnd {
			t.Errorf("it yields with %v", err)
		}
		resume()
		if err := take(old); err != nil {
			t.Errorf("it resumes with %v", err)
		}
		old.Yield()
		old.Close()
		l.EndReader()
		if err := take(next); err != nil {
			t.Errorf("its successor reads with %v", err)
		}
		if report := <-reports; len(seen) != 3 || len(report.Failures) > 0 {
			t.Errorf("seen %v, failures %+v", seen, report.Failures)
		}
	})
}

func TestAReadUnderWayYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Of(nil, "x")
		l.AddWriter()
		r, ended := l.NewReader(), make(chan error)
		go func() { ended <- r.Read(t.Context(), engine.NewBatch(1)) }()
		synctest.Wait()
		r.Yield()
		if err := <-ended; err != engine.ErrEnd {
			t.Errorf("got %v", err)
		}
	})
}
