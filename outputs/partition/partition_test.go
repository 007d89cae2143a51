package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// run sends payloads through a partition by the field k. It returns the messages of each of three outputs, and the fates.
func run(t *testing.T, orderBy string, payloads []string) (got [3][]string, results map[string]engine.Result) {
	t.Helper()
	var sinks [3]*enginetest.Sink
	outs := []schema.Entry[engine.OutputSpec]{{Key: "parts", Value: engine.OutputSpec{Use: engine.Plugin[engine.Output]{
		Name: "partition", Config: Config{Key: expr.MustCompile("k"), Outputs: engine.Names{"o0", "o1", "o2"}},
	}}}}
	for i := range sinks {
		sinks[i] = &enginetest.Sink{}
		outs = append(outs, schema.Entry[engine.OutputSpec]{Key: fmt.Sprint("o", i), Value: sinks[i].Output()})
	}
	spec := engine.EngineSpec{Workers: 2}
	if orderBy != "" {
		spec.OrderBy = expr.MustCompile(orderBy)
	}
	src := &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne, PerRead: 10}
	synctest.Test(t, func(t *testing.T) {
		enginetest.Run(t, &engine.Pipeline{
			Inputs: enginetest.Named("in", src.Input()), Outputs: schema.MapOf(outs...),
			Engine: spec,
		}, nil)
	})
	for i := range sinks {
		got[i] = sinks[i].Bodies()
	}
	return got, src.Results()
}

func TestEqualKeysStayTogetherAndInOrder(t *testing.T) {
	var all []string
	for i := range 600 {
		all = append(all, fmt.Sprintf(`{"k":"key %d","n":%d}`, i%30, i))
	}
	got, _ := run(t, "k", all)
	where, last, n := map[string]int{}, map[string]int{}, 0
	for i, bodies := range got {
		if len(bodies) == 0 {
			t.Errorf("output %d got nothing", i)
		}
		for _, body := range bodies {
			n++
			var key string
			var number int
			if _, err := fmt.Sscanf(strings.NewReplacer(`{"k":"key `, "", `","n":`, " ", "}", "").Replace(body),
				"%s %d", &key, &number); err != nil {
				t.Fatal(body, err)
			}
			if at, seen := where[key]; seen && at != i {
				t.Errorf("key %s is in outputs %d and %d", key, at, i)
			}
			if before, seen := last[key]; seen && before > number {
				t.Errorf("key %s: %d came behind %d", key, number, before)
			}
			where[key], last[key] = i, number
		}
	}
	if n != 600 {
		t.Errorf("%d were written", n)
	}
}

func TestWithoutAKeyTheFirstTakesIt(t *testing.T) {
	got, _ := run(t, "", []string{`{"k":null}`, `{}`})
	slices.Sort(got[0])
	if !slices.Equal(got[0], []string{`{"k":null}`, `{}`}) {
		t.Errorf("got %q", got)
	}
}

func TestAKeyThatFailsFailsItsMessage(t *testing.T) {
	got, results := run(t, "", []string{`not json`, `{"k":1}`})
	if n := len(got[0]) + len(got[1]) + len(got[2]); n != 1 {
		t.Errorf("got %q", got)
	}
	if r := results["not json"]; r.Fate != engine.Returned || r.Err == nil || r.Err.Class != engine.Decode {
		t.Errorf("got %s, %v", r.Fate, r.Err)
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`{"key": "k", "outputs": ["a"]}`: "",
		`{"outputs": ["a"]}`:             "key: required",
		`{"key": "k"}`:                   "outputs: required",
		`{"key": "k", "outputs": []}`:    "must not be empty",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Outputs, `{"partition": `+config+`}`), "\n")
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
}
