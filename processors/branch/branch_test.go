package branch_test

import (
	"fmt"
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/branch"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/map"
	_ "github.com/flowd-io/flowd/processors/meta"
	_ "github.com/flowd-io/flowd/processors/payload"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/split"
)

func TestBranch(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "the result goes to its field, all else stays",
			Step: `{"branch": {"in": "{id: user.id}", "do": [{"set": {"name": "\"n\" + string(id)"}}], "into": "user.details"}}`,
			In:   []string{`{"user": {"id": 7 }, "x":  1}`}, Want: []string{`{"user": {"id": 7,"details":{"id":7,"name":"n7"} }, "x":  1}`}},
		{Name: "the message by default", Step: `{"branch": {"do": [{"map": "{n: this.a + 1}"}], "into": "b"}}`,
			In: []string{`{"a":1}`, `{"a":2}`}, Want: []string{`{"a":1,"b":{"n":2}}`, `{"a":2,"b":{"n":3}}`}},
		{Name: "without into, the result is the payload", Step: `{"branch": {"in": "a", "do": [{"set": {"x": "1"}}]}}`,
			In: []string{`{"a":{"k":0}}`}, Want: []string{`{"k":0,"x":1}`}},
		{Name: "this is the payload", Step: `{"branch": {"in": "a", "do": [{"payload": "\"plain\""}], "into": "this"}}`,
			In: []string{`{"a":{"k":0}}`}, Want: []string{`plain`}},
		{Name: "a path is taken as it is spelt", Step: `{"branch": {"in": "a", "do": [{"filter": "true"}], "into": "b"}}`,
			In: []string{`{"a":{"k": 1.50}}`, `{"c":1}`}, Want: []string{`{"a":{"k": 1.50},"b":{"k": 1.50}}`, `{"c":1,"b":null}`}},
		{Name: "text becomes a text", Step: `{"branch": {"do": [{"payload": "\"<ok/> \\\"\""}], "into": "answer"}}`,
			In: []string{`{}`}, Want: []string{`{"answer":"<ok/> \""}`}},
		{Name: "bytes do not fit into a field", Step: `{"branch": {"do": [{"payload": "from_base64(\"/w==\")"}], "into": "answer"}}`,
			In: []string{`{}`}, Want: []string{"failed decode: the result of the steps is neither a document nor text"}},
		{Name: "no payload at all is an empty text", Step: `{"branch": {"do": [{"payload": "\"\""}], "into": "answer"}}`,
			In: []string{`{}`}, Want: []string{`{"answer":""}`}},
		{Name: "a copy that is dropped changes nothing", Step: `{"branch": {"do": [{"filter": "a > 1"}, {"set": {"x": "1"}}], "into": "b"}}`,
			In: []string{`{"a":1}`, `{"a":2}`}, Want: []string{`{"a":1}`, `{"a":2,"b":{"a":2,"x":1}}`}},
		{Name: "nor does one that an error drops", Step: `{"branch": {"do": [{"fail": "no", "on_error": "drop"}], "into": "b"}}`,
			In: []string{`{"a":1}`}, Want: []string{`{"a":1}`}},
		{Name: "a failure is the message's own, and leaves it as it was",
			Step: `{"branch": {"do": [{"set": {"x": "1"}}, {"when": "a == 1", "fail": "no"}], "into": "b"}}`,
			In:   []string{`{"a":1}`, `{"a":2}`}, Want: []string{`{"a":2,"b":{"a":2,"x":1}}`, "failed permanent: no"}},
		{Name: "in that fails", Step: `{"branch": {"in": "a + 1", "do": [{"payload": "this"}], "into": "b"}}`,
			In: []string{`{"a":1}`, `{"a":"x"}`}, Want: []string{`{"a":1,"b":2}`, "failed expression: a + 1"}},
		{Name: "all that fail", Step: `{"branch": {"in": "a + 1", "do": [{"payload": "this"}], "into": "b"}}`,
			In: []string{`{}`}, Want: []string{"failed expression: a + 1"}},
		{Name: "a payload that is no document has no field for a result",
			Step: `{"branch": {"in": "{}", "do": [{"set": {"x": "1"}}], "into": "b"}}`,
			In:   []string{`nope`}, Want: []string{"failed decode: "}},
		{Name: "but it can be read", Step: `{"branch": {"in": "{text: raw()}", "do": [{"set": {"x": "1"}}]}}`,
			In: []string{`nope`}, Want: []string{`{"text":"nope","x":1}`}},
		{Name: "several results", Step: `{"branch": {"do": [{"split": "p"}], "into": "b"}}`,
			In:   []string{`{"p":[1,2]}`, `{"p":[3]}`, `{"p":[]}`},
			Want: []string{`{"p":[3],"b":3}`, `{"p":[]}`, "failed permanent: a step inside branch has turned one message into 2"}},
		{Name: "a branch in a branch",
			Step: `{"branch": {"in": "a", "do": [{"branch": {"in": "b", "do": [{"set": {"x": "1"}}], "into": "c"}}], "into": "a"}}`,
			In:   []string{`{"a":{"b":{}}}`}, Want: []string{`{"a":{"b":{},"c":{"x":1}}}`}},
	})
}

func TestBranchConforms(t *testing.T) {
	steptest.Conforms(t, `{"branch": {"do": [{"set": {"x": "1"}}], "into": "b"}}`, `{"a":1}`, `{"c":2}`)
}

func TestMetadataStays(t *testing.T) {
	p := enginetest.New(t, engine.Processors, `{"branch": {"do": [{"meta": {"n": "1"}}, {"set": {"x": "meta(\"n\")"}}], "into": "b"}}`)
	got := enginetest.Apply(t, p, `{}`)[0]
	if got.Body != `{"b":{"x":1}}` || len(got.Meta) > 0 {
		t.Errorf("got %+v, want the metadata of the copy to be gone", got)
	}
}

func TestTheErrorIsThatOfTheStepInside(t *testing.T) {
	p := enginetest.New(t, engine.Processors, `{"branch": {"do": [{"name": "check", "fail": "two"}]}}`)
	if got := enginetest.Apply(t, p, `{}`)[0]; got.Err.Step != "check" || got.Err.Class != engine.Permanent {
		t.Errorf("got %v of step %q", got.Err, got.Err.Step)
	}
}

func TestMergedCopiesFail(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"branch": {"do": [{"archive": "lines"}], "into": "b"}}]`, In: []string{`{"n":0}`, `{"n":4}`},
	}.Run(t)
	if len(bodies) != 0 || len(failures) != 1 || !strings.Contains(failures[0], "a step inside branch has merged messages") {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestStepsOfABatchSeeTheBatch(t *testing.T) {
	bodies, failures := steptest.Pipeline{
		Batch: `[{"branch": {"in": "n", "do": [{"payload": "this + batch_size()"}], "into": "m"}}]`,
		In:    []string{`{"n":0}`, `{"n":1}`},
	}.Run(t)
	if fmt.Sprint(bodies) != `[{"n":0,"m":2} {"n":1,"m":3}]` || failures != nil {
		t.Errorf("got %v, failures %v", bodies, failures)
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`{"branch": {}}`:         "do: required",
		`{"branch": {"do": []}}`: "do",
		`{"branch": {"request_map": "a", "do": [{"fail": ""}]}}`: "write `in`",
		`{"branch": {"into": "a[", "do": [{"fail": ""}]}}`:       "is not a valid path",
	} {
		if got := fmt.Sprint(enginetest.Problems(t, engine.Processors, config)); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q", config, got, want)
		}
	}
}
