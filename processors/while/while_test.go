package while

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/map"
	_ "github.com/flowd-io/flowd/processors/meta"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/switch"
)

func TestWhile(t *testing.T) {
	const count = `{"while": {"when": "n < 3", "do": [{"set": {"n": "n + 1"}}]}}`
	steptest.Run(t, []steptest.Case{
		{Name: "the steps run until the condition is false", Step: count,
			In: []string{`{"n":0}`, `{"n":2}`, `{"n": 1}`}, Want: []string{`{"n":3}`, `{"n":3}`, `{"n": 3}`}},
		{Name: "a message for which it never holds is left alone", Step: count, In: []string{`{"n": 3 }`},
			Want: []string{`{"n": 3 }`}},
		{Name: "messages of long and short loops keep their order", Step: count,
			In:   []string{`{"n":-90,"i":0}`, `{"n":2,"i":1}`, `{"n":3,"i":2}`, `{"n":-9,"i":3}`},
			Want: []string{`{"n":3,"i":0}`, `{"n":3,"i":1}`, `{"n":3,"i":2}`, `{"n":3,"i":3}`}},
		{Name: "an envelope is opened", Step: `{"while": {"when": "envelope != nil", "do": [{"map": "envelope"}]}}`,
			In: []string{`{"envelope":{"envelope":{"id": 7}}}`}, Want: []string{`{"id": 7}`}},
		{Name: "a step that drops a message drops it",
			Step: `{"while": {"when": "n < 3", "do": [{"set": {"n": "n + 1"}}, {"filter": "n != 2"}]}}`,
			In:   []string{`{"n":0}`, `{"n":2}`}, Want: []string{`{"n":3}`, "dropped"}},
		{Name: "cases and repairs work inside",
			Step: `{"while": {"when": "n < 3", "do": [{"switch": [{"when": "n == 1", "do": [{"fail": "one", "on_error": [{"set": {"n": "2", ` +
				`"why": "error().message"}}]}]}, {"do": [{"set": {"n": "n + 1"}}]}]}]}}`, In: []string{`{"n":0}`},
			Want: []string{`{"n":3,"why":"one"}`}},
		{Name: "a loop in a loop",
			Step: `{"while": {"when": "n < 3", "do": [{"set": {"n": "n + 1", "m": "0"}}, {"while": {"when": "m < n", "do": [{"set": {"m": "m + ` +
				`1"}}]}}]}}`, In: []string{`{"n":0}`}, Want: []string{`{"n":3,"m":3}`}},

		{Name: "a failure names the round and leaves the message as it was",
			Step: `{"while": {"when": "m < 3", "do": [{"set": {"m": "m + 1", "n": "n + 1"}}]}}`,
			In:   []string{`{"m":2,"n":2}`, `{"m":2,"n":"x"}`},
			Want: []string{`{"m":3,"n":3}`, "failed expression: round 1: "}},
		{Name: "one that never ends fails",
			Step: `{"while": {"when": "n >= 0", "max": 70, "do": [{"set": {"n": "n + 1"}}]}}`,
			In:   []string{`{"n":1}`, `{"n":-1}`},
			Want: []string{`{"n":-1}`, "failed permanent: n >= 0 is still true after 70 rounds (raise `max`"}},
		{Name: "max rounds are allowed",
			Step: `{"while": {"when": "n < 130", "max": 130, "do": [{"set": {"n": "n + 1"}}]}}`,
			In:   []string{`{"n":0}`}, Want: []string{`{"n":130}`}},
		{Name: "a condition that can't be told fails the message", Step: count, In: []string{`{}`},
			Want: []string{"failed expression: "}},
		{Name: "one that can't be told later does, too",
			Step: `{"while": {"when": "n < 3", "do": [{"set": {"n": "nil"}}]}}`, In: []string{`{"n":1}`},
			Want: []string{"failed expression: round 1: "}},
		{Name: "a payload that is no document fails", Step: count, In: []string{`nope`},
			Want: []string{"failed decode: "}},
		{Name: "several messages can't go on as one", Step: `{"while": {"when": "n < 3", "do": [{"split": "parts"}]}}`,
			In: []string{`{"n":0,"parts":[{"n":5},{"n":6}]}`, `{"n":4}`, `{"n":1,"parts":[{"n":5}]}`,
				`{"n":0,"parts":[]}`}, Want: []string{`{"n":4}`, `{"n":5}`,
				"failed permanent: round 1: a step inside while has turned one message into 2", "dropped"}},
	})
}

func TestTheErrorIsThatOfTheStepInside(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"while": {"when": "n < 3", "do": [{"name": "grow", "set": {"n": "n + 1"}}, {"name": "check", "when": "n == 2", "fail": "two"}]}}`)
	got := enginetest.Apply(t, p, `{"n":0}`)[0]
	if got.Fate != "failed" || got.Err.Step != "check" || got.Err.Class != engine.Permanent ||
		got.Err.Error() != "round 2: two" || got.Body != `{"n":0}` {
		t.Errorf("got %+v, step %q", got, got.Err.Step)
	}
}

func TestMetadataIsKept(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"while": {"when": "(meta(\"n\") ?? 0) < 3", "do": [{"meta": {"n": "(meta(\"n\") ?? 0) + 1"}}]}}`)
	got := enginetest.Apply(t, p, `not json`)[0]
	if got.Body != "not json" || got.Meta["n"] != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestAMessageThatAnErrorDropsIsCountedAsDropped(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Steps: `[{"while": {"when": "n < 3", "do": [{"set": {"n": "n + 1"}}, {"when": "n == 2", "fail": "two", "on_error": "drop"}]}}]`,
		In:    []string{`{"n":0}`, `{"n":2}`},
	}.Run(t)
	if len(bodies) != 1 || bodies[0] != `{"n":3}` || failures != nil {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestStepsOfABatchSeeTheBatch(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"while": {"when": "n < len(messages())", "do": [{"set": {"n": "n + batch_size()"}}]}}]`,
		In:    []string{`{"n":0}`, `{"n":1}`},
	}.Run(t)
	if fmt.Sprint(bodies) != `[{"n":2} {"n":3}]` || failures != nil {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestMergedMessagesCannotContinueSeparately(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"while": {"when": "n < 3", "do": [{"archive": "lines"}]}}]`,
		In:    []string{`{"n":0}`, `{"n":4}`, `{"n":1}`},
	}.Run(t)
	if fmt.Sprint(bodies) != `[{"n":4}]` || len(failures) != 1 ||
		!strings.HasPrefix(failures[0], "permanent: round 1: a step inside while has merged messages") {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestADocumentMadeOfAMergeIsOne(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"archive": "json_array"}, {"while": {"when": "this[0] != nil", "do": [{"map": "{x: len(this)}"}]}}, {"set": {"y": "x"}}]`,
		In:    []string{`{"n":1}`, `{"n":2}`},
	}.Run(t)
	if fmt.Sprint(bodies) != `[{"x":2,"y":2}]` || failures != nil {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestRefused(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no condition", Step: `{"while": {"do": [{"set": {"a": "1"}}]}}`, Want: "when: required"},
		{Name: "no steps", Step: `{"while": {"when": "true", "do": []}}`, Want: "must not be empty"},
		{Name: "no round", Step: `{"while": {"when": "true", "max": 0, "do": [{"set": {"a": "1"}}]}}`,
			Want: "at least 1"},
		{Name: "no condition at all", Step: `{"while": {"when": "1", "do": [{"set": {"a": "1"}}]}}`,
			Want: "must be true or false"},
		{Name: "a mistake inside", Step: `{"while": {"when": "true", "do": [{"switch": []}]}}`,
			Want: "switch needs at least one case"},
	})
}

func TestProcessor(t *testing.T) {
	steptest.Conforms(t, `{"while": {"when": "(n ?? 9) < 3", "do": [{"set": {"n": "n + 1"}}]}}`, `{"n":0}`, `{"n":7}`,
		`{"n":2}`)
}

// loopOf returns a while loop with one step.
func loopOf(tb testing.TB, when string, limit int, p engine.Processor) engine.Processor {
	tb.Helper()
	w, err := build(Config{When: expr.MustCond(when), Do: engine.Steps{{Name: "step", Use: enginetest.Processing(p)}},
		Max: limit}, enginetest.Env())
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

var n = doc.MakePath("n")

// counter adds one to n and counts its calls.
type counter struct{ calls, messages int }

func (c *counter) Process(_ context.Context, b *engine.Batch) error {
	c.calls++
	for m := range b.All() {
		c.messages++
		v, err := m.Get(n)
		if err == nil {
			err = m.Set(n, v.(int)+1)
		}
		if err != nil {
			m.Fail(err)
		}
	}
	return nil
}

func numbered(count int) *engine.Batch {
	b := engine.NewBatch(count)
	for i := range count {
		b.Add(fmt.Appendf(nil, `{"id":%d,"text":%q,"n":0}`, i, strings.Repeat("x", 300)))
	}
	return b
}

func TestARoundIsOneCallForAllMessages(t *testing.T) {
	c := &counter{}
	b := numbered(256)
	if err := loopOf(t, "n < 3", 3, c).Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if c.calls != 3 || c.messages != 3*256 {
		t.Errorf("%d calls for %d messages, want 3 for %d", c.calls, c.messages, 3*256)
	}
	i := 0
	for m := range b.All() {
		id, _ := m.Get(doc.MakePath("id"))
		if got, _ := m.Get(n); got != 3 || id != i {
			t.Fatalf("message %d: %s", i, m.Bytes())
		}
		i++
	}
	if i != 256 {
		t.Errorf("%d messages are left", i)
	}
}

func TestTheStepsTimeoutEndsTheLoop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	b := enginetest.Batch(`{"n":0}`, `{"n":-1}`)
	wait := engine.ProcessorFunc(func(ctx context.Context, m *engine.Message) error {
		if v, _ := m.Get(n); v == -1 {
			return m.Set(n, 5)
		}
		<-ctx.Done()
		return nil
	})
	if err := loopOf(t, "n < 3", 1<<30, wait).Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	var bodies []string
	for m := range b.All() {
		bodies = append(bodies, string(m.Bytes()))
	}
	if fmt.Sprint(bodies) != `[{"n":5}]` {
		t.Errorf("left: %v, want the one that was done", bodies)
	}
	for m := range b.Ended() {
		if err := m.Err(); err.Class != engine.Timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v %v", m.Bytes(), err.Class, err)
		}
	}
}

// BenchmarkRounds compares three rounds with three runs of the same steps.
func BenchmarkRounds(b *testing.B) {
	run := func(b *testing.B, p engine.Processor, times int) {
		for b.Loop() {
			batch := numbered(256)
			for range times {
				if err := runtime.NewRunner(p).Run(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("build", func(b *testing.B) { run(b, &counter{}, 0) })
	b.Run("steps", func(b *testing.B) { run(b, &counter{}, 3) })
	b.Run("while", func(b *testing.B) { run(b, loopOf(b, "n < 3", 3, &counter{}), 1) })
}
