package parallel

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/decode"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/map"
	_ "github.com/flowd-io/flowd/processors/meta"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/sleep"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/unset"
	_ "github.com/flowd-io/flowd/processors/while"
	"github.com/flowd-io/flowd/schema"
)

func TestParallel(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "the changes of all branches are merged",
			Step: `{"parallel": {"a": [{"set": {"x": "n + 1"}}], "b": [{"set": {"y": "n + 2"}}, {"unset": ["old"]}]}}`,
			In:   []string{`{"n": 1, "old":2,"z": 1.10}`}, Want: []string{`{"n": 1,"z": 1.10,"x":2,"y":3}`}},
		{Name: "no branch sees another",
			Step: `{"parallel": {"a": [{"set": {"n": "n + 1"}}], "b": [{"set": {"m": "n"}}]}}`, In: []string{`{"n":1}`},
			Want: []string{`{"n":2,"m":1}`}},
		{Name: "the later branch wins", Step: `{"parallel": {"a": [{"set": {"n": "1"}}], "b": [{"set": {"n": "2"}}]}}`,
			In: []string{`{"n":0}`}, Want: []string{`{"n":2}`}},
		{Name: "objects are merged field by field",
			Step: `{"parallel": {"a": [{"set": {"o.a": "1"}}], "b": [{"set": {"o.b": "2"}}, {"unset": ["o.c"]}]}}`,
			In:   []string{`{"o": {"c":0, "d": [1]}}`}, Want: []string{`{"o": {"d": [1],"a":1,"b":2}}`}},
		{Name: "so are those that branches make",
			Step: `{"parallel": {"a": [{"set": {"o.p.a": "1"}}], "b": [{"set": {"o.p.b": "2"}}]}}`,
			In:   []string{`{}`, `{"o":null}`}, Want: []string{`{"o":{"p":{"a":1,"b":2}}}`,
				`{"o":{"p":{"a":1,"b":2}}}`}},
		{Name: "a change inside an object that an earlier branch removed is made",
			Step: `{"parallel": {"a": [{"unset": ["o"]}], "b": [{"set": {"o.b": "2"}}]}}`,
			In:   []string{`{"o":{"a":1,"b":1}}`}, Want: []string{`{"o":{"b":2}}`}},
		{Name: "inside one that it replaced by a scalar the later object wins",
			Step: `{"parallel": {"a": [{"set": {"o": "5"}}], "b": [{"set": {"o.b": "2"}}]}}`,
			In:   []string{`{"o":{"a":1}}`}, Want: []string{`{"o":{"a":1,"b":2}}`}},
		{Name: "arrays are replaced whole",
			Step: `{"parallel": {"a": [{"set": {"l[0]": "9"}}], "b": [{"set": {"l[1]": "9"}}]}}`,
			In:   []string{`{"l":[1,2]}`}, Want: []string{`{"l":[1,9]}`}},
		{Name: "another spelling is no change",
			Step: `{"parallel": {"a": [{"set": {"p": "5", "o.x": "1"}}], "b": [{"map": "this"}]}}`,
			In:   []string{`{"p": 1.10, "o" : {"b": 1, "a": 2}}`},
			Want: []string{`{"p": 5, "o" : {"b": 1, "a": 2,"x":1}}`}},
		{Name: "of duplicate keys the last counts",
			Step: `{"parallel": {"a": [{"set": {"x": "a"}}], "b": [{"map": "{a: a}"}]}}`, In: []string{`{"a":1,"a":2}`},
			Want: []string{`{"a":1,"a":2,"x":2}`}},
		{Name: "odd keys are kept",
			Step: `{"parallel": {"a": [{"set": {"[\"x.y\"]": "1"}}], "b": [{"set": {"[\"\"]": "2"}}]}}`,
			In:   []string{`{"\u0041":0}`}, Want: []string{`{"\u0041":0,"x.y":1,"":2}`}},
		{Name: "a branch that drops adds nothing",
			Step: `{"parallel": {"a": [{"set": {"x": "1"}}, {"filter": "n > 1"}], "b": [{"set": {"y": "1"}}, {"fail": "no", "on_error": "drop"}],` +
				` "c": [{"set": {"z": "1"}}]}}`, In: []string{`{"n":1}`, `{"n":2}`}, Want: []string{`{"n":1,"z":1}`, `{"n":2,"x":1,"z":1}`}},
		{Name: "a payload that is no object is replaced by the last that changed it",
			Step: `{"parallel": {"a": [{"map": "[1]"}], "b": [{"map": "[2]"}], "c": [{"set": {"x": "1"}, "when": "false"}]}}`, In: []string{`[0]`,
				`{"n":1}`}, Want: []string{`[2]`, `[2]`}},
		{Name: "text can be decoded in a branch",
			Step: `{"parallel": {"a": [{"decode": "kv"}], "b": [{"meta": {"n": "size()"}}]}}`, In: []string{`a=b`},
			Want: []string{`{"a":"b"}`}},
		{Name: "branches in branches",
			Step: `{"parallel": {"a": [{"parallel": {"c": [{"set": {"c": "1"}}], "d": [{"set": {"d": "1"}}]}}], "b": [{"set": {"b": "1"}}]}}`,
			In:   []string{`{}`}, Want: []string{`{"c":1,"d":1,"b":1}`}},

		{Name: "a branch that fails fails the message, which stays as it was",
			Step: `{"parallel": {"a": [{"set": {"x": "1"}}], "b": [{"set": {"y": "n + 1"}}]}}`,
			In:   []string{`{"n":"x"}`, `{"n":1}`},
			Want: []string{`{"n":1,"x":1,"y":2}`, "failed expression: branch b: "}},
		{Name: "several messages can't be merged into one", Step: `{"parallel": {"a": [{"split": "l"}]}}`,
			In: []string{`{"l":[1,2]}`, `{"l":[{"n":1}]}`}, Want: []string{`{"n":1}`,
				"failed permanent: branch a: a step inside parallel has turned one message into 2"}},
	})
}

func TestTheErrorIsThatOfTheStepInside(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"parallel": {"a": [{"set": {"x": "1"}}], "b": [{"name": "check", "fail": "no"}], "c": [{"fail": "later"}]}}`)
	got := enginetest.Apply(t, p, `{"n":0}`)[0]
	if got.Fate != "failed" || got.Err.Step != "check" || got.Err.Class != engine.Permanent ||
		got.Err.Error() != "branch b: no" || got.Body != `{"n":0}` {
		t.Errorf("got %+v", got)
	}
}

func TestMetadataIsMerged(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"parallel": {"a": [{"meta": {"x": "1", "old": "nil", "topic": "meta(\"topic\")"}}], "b": [{"meta": {"y": "2", "list": "[1]"}}], `+
			`"c": [{"meta": {"x": "3"}}, {"filter": "false"}]}}`)
	b := enginetest.Batch(`{}`)
	for m := range b.All() {
		m.Meta = m.Meta.With("topic", "t").With("part", 1).Own().With("old", true).With("list", []any{1})
	}
	if err := p.Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		if got, want := fmt.Sprint(m.Meta.Map()), "map[list:[1] part:1 topic:t x:1 y:2]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		added := map[string]bool{}
		for name := range m.Meta.Added() {
			added[name] = true
		}
		if !added["topic"] || added["part"] { // a step has set topic, so outputs send it as a header
			t.Errorf("added: %v", added)
		}
	}
}

func TestBranchesRunAtTheSameTime(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"parallel": {"a": [{"sleep": "1s"}], "b": [{"sleep": "2s"}], "c": [{"sleep": "3s"}]}}`)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		enginetest.Apply(t, p, `{}`)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("took %v, want 3s", d)
		}
	})
}

func TestTheStepsTimeoutEndsAllBranches(t *testing.T) {
	p := enginetest.New(t, engine.Processors, `{"parallel": {"a": [{"set": {"x": "1"}}], "b": [{"sleep": "1h"}]}}`)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := enginetest.Batch(`{}`, `{}`)
		if err := p.Process(ctx, b); err != nil {
			t.Fatal(err)
		}
		n := 0
		for m := range b.Ended() {
			if err := m.Err(); err != nil && err.Class == engine.Timeout {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d messages have timed out, want 2", n)
		}
	})
}

func TestAPanicInABranchFailsTheMessages(t *testing.T) {
	for name, steps := range map[string]engine.Steps{
		"of a step":  {enginetest.Step("bad", func(context.Context, *engine.Message) error { panic("boom") })},
		"of a split": {{Use: enginetest.Processing(splitter{})}},
	} {
		p, err := build(schema.MapOf(schema.Entry[engine.Steps]{Key: "a", Value: steps}), enginetest.Env())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range enginetest.Apply(t, p, `{}`, `{}`) {
			if o.Fate != "failed" || o.Err.Class != engine.Panicked || !strings.Contains(o.Err.Error(), "branch a: ") {
				t.Errorf("%s: %+v", name, o)
			}
		}
	}
}

// splitter panics outside of Process, when its parts are pulled.
type splitter struct{}

func (splitter) Process(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		b.Split(m, func(func([]byte, error) bool) { panic("boom") })
	}
	return nil
}

func TestBranchesOfABatchStepReadTheBatchAtTheSameTime(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"while": {"when": "s == nil", "do": [{"parallel": {
			"a": [{"set": {"s": "sum(messages(), .n)"}}],
			"b": [{"set": {"l": "len(messages())"}}],
			"c": [{"set": {"m": "max(map(messages(), .n))"}}]}}]}}]`,
		In: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`},
	}.Run(t)
	if fmt.Sprint(bodies) != `[{"n":1,"s":6,"l":3,"m":3} {"n":2,"s":6,"l":3,"m":3} {"n":3,"s":6,"l":3,"m":3}]` ||
		failures != nil {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestBranchesBehindAMergeReadWhatWasMerged(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"archive": "json_array"}, {"parallel": {"a": [{"meta": {"a": "len(this)"}}], "b": [{"meta": {"b": "1"}}], "c": [{"map": ` +
			`"{c: this[1].n}"}]}}, {"set": {"d": "c", "a": "meta(\"a\")"}}]`,
		In: []string{`{"n":1}`, `{"n":2}`},
	}.Run(t)
	if fmt.Sprint(bodies) != `[{"c":2,"d":2,"a":2}]` || failures != nil {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestRefused(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no branch", Step: `{"parallel": {}}`, Want: "at least one branch"},
		{Name: "an empty branch", Step: `{"parallel": {"a": []}}`, Want: `branch "a" has no steps`},
		{Name: "a list", Step: `{"parallel": [{"set": {"a": "1"}}]}`, Want: "expected"},
		{Name: "a mistake inside", Step: `{"parallel": {"a": [{"sleep": "soon"}], "b": [{"set": {"a": "1"}}]}}`,
			Want: "not a valid duration to sleep"},
	})
}

func TestProcessor(t *testing.T) {
	steptest.Conforms(t, `{"parallel": {"a": [{"set": {"a": "1"}}], "b": [{"set": {"b": "1"}}]}}`, `{"n":0}`, `{"n":7}`,
		`{}`)
}

func BenchmarkMerge(b *testing.B) {
	p := enginetest.New(b, engine.Processors,
		`{"parallel": {"a": [{"set": {"a": "1"}}], "b": [{"set": {"user.b": "1"}}]}}`)
	for b.Loop() {
		batch := engine.NewBatch(256)
		for range 256 {
			batch.Add([]byte(`{"id":7,"user":{"name":"x","plan":"free"},"items":[1,2,3],"text":"` + text + `"}`))
		}
		if err := p.Process(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

var text = strings.Repeat("x", 300)
