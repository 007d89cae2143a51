package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// of returns a fallback of outputs.
func of(names ...string) engine.OutputSpec {
	return engine.OutputSpec{Use: engine.Plugin[engine.Output]{Name: "fallback", Config: Config{Outputs: names}}}
}

func out(name string, o engine.OutputSpec) schema.Entry[engine.OutputSpec] {
	return schema.Entry[engine.OutputSpec]{Key: name, Value: o}
}

// failing returns an output that fails these payloads, or all, with a class.
func failing(class engine.Class, payloads ...string) *enginetest.Sink {
	return &enginetest.Sink{Fail: func(body string) error {
		if len(payloads) == 0 || slices.Contains(payloads, body) {
			return engine.Errorf(class, "no %s", body)
		}
		return nil
	}}
}

// steps makes an output with its own steps that append to the payload.
func steps(o engine.OutputSpec, text string) engine.OutputSpec {
	o.Processors = engine.Steps{enginetest.Step("mark", func(_ context.Context, m *engine.Message) error {
		m.SetBytes(append(slices.Clone(m.Bytes()), text...))
		return nil
	})}
	return o
}

// run runs a pipeline in virtual time, and returns how long it took.
func run(t *testing.T, p *engine.Pipeline) (took time.Duration, rep runtime.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rep = enginetest.Run(t, p, nil)
		took = time.Since(began)
	})
	return took, rep
}

func pipeline(src *enginetest.Source, outs ...schema.Entry[engine.OutputSpec]) *engine.Pipeline {
	return &engine.Pipeline{Inputs: enginetest.Named("in", src.Input()), Outputs: schema.MapOf(outs...)}
}

func TestTheSecondGetsWhatTheFirstFoundAndWhyItFailed(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"1", "2", "3"}, Takes: engine.TakesOne,
		Prepare: func(i int, m *engine.Message) {
			m.Meta = engine.Meta{}.With("n", i)
		}}
	first, second := failing(engine.Rejected, "2 x"), &enginetest.Sink{}
	p := pipeline(src, out("both", of("first", "second")), out("first", steps(first.Output(), " x")),
		out("second", second.Output()))
	p.Engine.Workers = 1 // several would not keep the order
	run(t, p)

	if got := first.Bodies(); !slices.Equal(got, []string{"1 x", "3 x"}) {
		t.Errorf("first got %q", got)
	}
	if len(second.Writes()) != 1 || !slices.Equal(second.Bodies(), []string{"2"}) {
		t.Fatalf("second got %q", second.Bodies())
	}
	meta := second.Writes()[0].Metas[0]
	delete(meta, "error_first_failed")
	want := map[string]any{"n": 1, "error_class": "rejected", "error_message": "no 2 x", "error_output": "first",
		"error_step": "", "error_attempt": 1}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Error(diff)
	}
	for body, r := range src.Results() {
		if r.Fate != engine.Delivered {
			t.Errorf("%s is %s", body, r.Fate)
		}
	}
}

func TestTheRetriesOfTheFirstAreUsedUpBefore(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"a"}, Takes: engine.TakesOne}
	tries := 0
	first := &enginetest.Sink{Fail: func(string) error { tries++; return errors.New("down") }}
	second := &enginetest.Sink{}
	spec := first.Output()
	spec.Retry = &engine.Retry{MaxAttempts: 3, Intervals: []time.Duration{time.Second, 2 * time.Second}}
	took, _ := run(t, pipeline(src, out("both", of("first", "second")), out("first", spec),
		out("second", second.Output())))
	if tries != 3 || took != 3*time.Second || !slices.Equal(second.Bodies(), []string{"a"}) {
		t.Errorf("%d tries in %s, then %q", tries, took, second.Bodies())
	}
	if got := second.Writes()[0].Metas[0]["error_attempt"]; got != 3 {
		t.Errorf("error_attempt is %v", got)
	}
}

func TestTheSecondHasItsOwnRetries(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"a"}, Takes: engine.TakesOne}
	tries := 0
	second := &enginetest.Sink{Fail: func(string) error {
		if tries++; tries < 3 {
			return errors.New("down")
		}
		return nil
	}}
	spec := second.Output()
	spec.Retry = &engine.Retry{MaxAttempts: 3, Intervals: []time.Duration{time.Second}}
	run(t, pipeline(src, out("both", of("first", "second")), out("first", failing(engine.Rejected).Output()),
		out("second", spec)))
	if tries != 3 || !slices.Equal(second.Bodies(), []string{"a"}) {
		t.Errorf("%d tries, then %q", tries, second.Bodies())
	}
}

func TestOneInAnother(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"a", "b", "c", "d", "e"}, Takes: engine.TakesOne}
	sinks := map[string]*enginetest.Sink{
		"1": failing(engine.Rejected, "b", "c", "d", "e"),
		"2": failing(engine.Rejected, "c", "d", "e"),
		"3": failing(engine.Rejected, "d", "e"),
		"4": failing(engine.Rejected, "e"),
	}
	p := pipeline(src, out("all", of("front", "back")), out("front", of("1", "2")), out("back", of("3", "4")),
		out("1", sinks["1"].Output()), out("2", sinks["2"].Output()), out("3", sinks["3"].Output()),
		out("4", sinks["4"].Output()))
	_, rep := run(t, p)
	got := map[string]string{}
	for name, s := range sinks {
		got[name] = fmt.Sprint(s.Bodies())
	}
	if diff := cmp.Diff(map[string]string{"1": "[a]", "2": "[b]", "3": "[c]", "4": "[d]"}, got); diff != "" {
		t.Error(diff)
	}
	r := src.Results()["e"]
	if r.Fate != engine.Returned || r.Err == nil || r.Err.Output != "4" {
		t.Errorf("e is %s: %v, %+v", r.Fate, r.Err, rep.Stats.Roots)
	}
}

func TestAMessageThatAllMembersFailGoesWhereOnFailureSays(t *testing.T) {
	for _, then := range []string{"dead_letter", "drop", "return"} {
		t.Run(then, func(t *testing.T) {
			src := &enginetest.Source{Payloads: []string{"a", "b"}, Takes: engine.TakesOne}
			dead, second := &enginetest.Sink{}, failing(engine.Rejected, "b y")
			outs := []schema.Entry[engine.OutputSpec]{
				out("both", of("first", "second")),
				out("first", steps(failing(engine.Rejected, "b x").Output(), " x")),
				out("second", steps(second.Output(), " y")),
			}
			if then == "dead_letter" {
				outs = append(outs, out("dead", dead.Output()))
			}
			p := pipeline(src, outs...)
			if p.Engine.OnFailure.Then.Word = then; then == "dead_letter" {
				p.Engine.OnFailure.DeadLetter = "dead"
			}
			run(t, p)
			want := map[string]engine.Fate{"dead_letter": engine.DeadLettered, "drop": engine.Dropped,
				"return": engine.Returned}[then]
			if r := src.Results(); r["a"].Fate != engine.Delivered || r["b"].Fate != want {
				t.Errorf("a is %s, b is %s", r["a"].Fate, r["b"].Fate)
			}
			if got := dead.Bodies(); then == "dead_letter" && !slices.Equal(got, []string{"b"}) {
				t.Errorf("dead letters: %q", got)
			}
		})
	}
}

func TestTheLastMembersOwnOnFailureCounts(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"a"}, Takes: engine.TakesOne}
	first, second := failing(engine.Rejected).Output(), failing(engine.Rejected).Output()
	first.OnFailure, second.OnFailure = &engine.OnFailure{Then: engine.Then{Word: "stop"}}, &engine.OnFailure{Then: engine.Then{Word: "drop"}}
	_, rep := run(t, pipeline(src, out("both", of("first", "second")), out("first", first), out("second", second)))
	if got := src.Results()["a"].Fate; got != engine.Dropped || rep.Err != nil {
		t.Errorf("got %s, %v", got, rep.Err)
	}
}

func TestADeadLetterMayBeAFallback(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"a", "b", "c"}, Takes: engine.TakesOne}
	queue := &enginetest.Sink{Fail: func(body string) error {
		switch body {
		case "b":
			return engine.Errorf(engine.Rejected, "the queue refuses b")
		case "c":
			return errors.New("the queue is down")
		}
		return nil
	}}
	spool := &enginetest.Sink{}
	spec := queue.Output()
	spec.Retry = &engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
	p := pipeline(src, out("out", failing(engine.Rejected).Output()), out("dead", of("queue", "spool")),
		out("queue", spec), out("spool", spool.Output()))
	p.Engine.OnFailure.DeadLetter = "dead"
	run(t, p)
	for body, r := range src.Results() {
		if r.Fate != engine.DeadLettered {
			t.Errorf("%s is %s", body, r.Fate)
		}
	}
	if !slices.Equal(queue.Bodies(), []string{"a"}) || !slices.Equal(spool.Bodies(), []string{"b", "c"}) {
		t.Fatalf("queue got %q, spool %q", queue.Bodies(), spool.Bodies())
	}
	for _, w := range spool.Writes() {
		if m := w.Metas[0]; m["error_output"] != "out" || m["error_message"] != "no "+w.Bodies[0] {
			t.Errorf("the dead letter forgot why it is one: %v", m)
		}
	}
}

// TestTheLastOfADeadLettersFallbackIsTriedForever checks that a message that it refuses permanently is treated as if there were no dead
// letter.
func TestTheLastOfADeadLettersFallbackIsTriedForever(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"a", "b"}, Takes: engine.TakesOne}
	tries := 0
	spool := &enginetest.Sink{Fail: func(body string) error {
		if body == "b" {
			return engine.Errorf(engine.Rejected, "the spool refuses b")
		}
		if tries++; tries < 20 {
			return errors.New("the spool is down")
		}
		return nil
	}}
	p := pipeline(src, out("out", failing(engine.Rejected).Output()), out("dead", of("queue", "spool")),
		out("queue", failing(engine.Rejected).Output()), out("spool", spool.Output()))
	p.Engine.OnFailure.DeadLetter = "dead"
	run(t, p)
	if r := src.Results(); r["a"].Fate != engine.DeadLettered || r["b"].Fate != engine.Returned || tries != 20 {
		t.Errorf("a is %s after %d tries, b is %s", r["a"].Fate, tries, r["b"].Fate)
	}
}

func TestABatchThatFailsStaysWhole(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"1", "2", "3", "4", "5", "6"}, Takes: engine.TakesOne}
	second := &enginetest.Sink{}
	first := &enginetest.Sink{FailAll: func([]string) error { return engine.Errorf(engine.Rejected, "no") }}
	p := pipeline(src, out("both", of("first", "second")), out("first", first.Output()), out("second", second.Output()))
	p.Batchers = enginetest.Named("all", engine.BatcherSpec{
		Use:    threes(t),
		Output: engine.Names{"both"},
	})
	run(t, p)
	var sizes []int
	for _, w := range second.Writes() {
		sizes = append(sizes, len(w.Bodies))
	}
	if !slices.Equal(sizes, []int{3, 3}) {
		t.Errorf("second got batches of %v", sizes)
	}
}

// threes makes batches of three.
func threes(t *testing.T) engine.Plugin[engine.Batcher] {
	t.Helper()
	var b engine.BatcherSpec
	steptest.Decode(t, `{"batch": {"size": 3}, "output": "both"}`, &b)
	return b.Use
}

// TestAMergedMessageStaysMerged checks that a message that a batch step has merged stays merged for the second member.
func TestAMergedMessageStaysMerged(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"1", "2", "3"}, Takes: engine.TakesOne}
	second := &enginetest.Sink{}
	p := pipeline(src, out("both", of("first", "second")), out("first", failing(engine.Rejected).Output()),
		out("second", second.Output()))
	p.Batchers = enginetest.Named("all", engine.BatcherSpec{
		Use:        threes(t),
		Processors: engine.Steps{{Name: "join", Use: enginetest.Processing(joiner{})}},
		Output:     engine.Names{"both"},
	})
	run(t, p)
	if !slices.Equal(second.Bodies(), []string{"joined"}) {
		t.Errorf("second got %q", second.Bodies())
	}
	for body, r := range src.Results() {
		if r.Fate != engine.Delivered {
			t.Errorf("%s is %s", body, r.Fate)
		}
	}
}

// TestAMergeOfTheFirstIsUndone checks that a merge by the first member's own steps is undone for the second. A part that such a step has
// made continues as that part.
func TestAMergeOfTheFirstIsUndone(t *testing.T) {
	src := &enginetest.Source{Payloads: []string{"1", "2", "3"}, Takes: engine.TakesOne}
	second := &enginetest.Sink{}
	first := failing(engine.Rejected).Output()
	first.Processors = engine.Steps{{Name: "join", Use: enginetest.Processing(joiner{})}}
	p := pipeline(src, out("both", of("first", "second")), out("first", first), out("second", second.Output()))
	p.Batchers = enginetest.Named("all", engine.BatcherSpec{
		Use:    threes(t),
		Output: engine.Names{"both"},
	})
	run(t, p)
	got := second.Bodies()
	slices.Sort(got)
	if !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("second got %q", got)
	}
}

type joiner struct{}

func (joiner) Process(_ context.Context, b *engine.Batch) error {
	b.Merge([]byte("joined"), b.All())
	return nil
}

func TestThousandsThroughAFallbackUnderOrder(t *testing.T) {
	var all []string
	for i := range 3000 {
		all = append(all, fmt.Sprint(i))
	}
	src := &enginetest.Source{Payloads: all, Takes: engine.TakesOne,
		Prepare: func(i int, m *engine.Message) { m.Key = fmt.Append(nil, i%7) }}
	flaky := &enginetest.Sink{Fail: func(body string) error {
		if body[len(body)-1] == '3' {
			return engine.Errorf(engine.Rejected, "no")
		}
		return nil
	}}
	second := &enginetest.Sink{}
	p := pipeline(src, out("both", of("first", "second")), out("first", flaky.Output()), out("second", second.Output()))
	p.Engine.Workers = 2
	enginetest.Run(t, p, nil)
	if a, b := len(flaky.Bodies()), len(second.Bodies()); a != 2700 || b != 300 {
		t.Errorf("first %d, second %d", a, b)
	}
}

// TestWhileTheFirstIsDownTheSecondTakesAll checks that messages wait neither for the first member's probes nor for its retry budget. Once
// it is up again, it is used.
func TestWhileTheFirstIsDownTheSecondTakesAll(t *testing.T) {
	var all []string
	for i := range 3000 {
		all = append(all, fmt.Sprint(i))
	}
	for _, batched := range []bool{false, true} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("batched %t, ordered %t", batched, ordered), func(t *testing.T) {
				src := &enginetest.Source{Payloads: all, Takes: engine.TakesOne, PerRead: 10,
					Every: 100 * time.Millisecond}
				if ordered {
					src.Prepare = func(i int, m *engine.Message) { m.Key = fmt.Append(nil, i%7) }
				}
				var began time.Time
				down := 20 * time.Second
				first := &enginetest.Sink{FailAll: func([]string) error {
					if time.Since(began) < down {
						return errors.New("down")
					}
					return nil
				}}
				second, spec := &enginetest.Sink{}, steps(first.Output(), " x")
				spec.Breaker = &engine.Breaker{Failures: 10, MaxBackoff: 2 * time.Second} // how soon its recovery is noticed
				p := pipeline(src, out("both", of("first", "second")), out("first", spec),
					out("second", second.Output()))
				if batched {
					p.Batchers = enginetest.Named("all", engine.BatcherSpec{
						Use:    threes(t),
						Output: engine.Names{"both"},
						Processors: engine.Steps{enginetest.Step("mark",
							func(_ context.Context, m *engine.Message) error {
								m.SetBytes(append(slices.Clone(m.Bytes()), " b"...))
								return nil
							})},
					})
				}
				if ordered {
					p.Engine.OrderBy = expr.MustCompile("this % 7")
				}
				var took time.Duration
				synctest.Test(t, func(t *testing.T) {
					began = time.Now()
					enginetest.Run(t, p, nil)
					took = time.Since(began)
				})
				if took > 40*time.Second { // reading takes 30 s
					t.Errorf("it took %s", took)
				}
				a, b := first.Bodies(), second.Bodies()
				if len(a)+len(b) != len(all) || len(a) < 300 || len(b) < 1000 {
					t.Errorf("first got %d, second %d", len(a), len(b))
				}
				end := map[bool]string{true: " b", false: ""}[batched]
				for i, body := range append(slices.Clone(a), b...) {
					want := end
					if i < len(a) {
						want += " x"
					}
					if at := strings.IndexByte(body+" ", ' '); body[at:] != want {
						t.Fatalf("%q does not end in %q", body, want)
					}
				}
			})
		}
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]int{`["a", "b"]`: 0, `"a"`: 0, `{"outputs": ["a"]}`: 0, `[]`: 1, `{}`: 1} {
		if got := enginetest.Problems(t, engine.Outputs, `{"fallback": `+config+`}`); len(got) != want {
			t.Errorf("%s: %q", config, got)
		}
	}
}
