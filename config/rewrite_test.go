package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rewriteHead precedes the tests of each case.
const rewriteHead = "# Orders.\ninputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}, lake: {stderr: {}}}\nbatchers: {all: {output: " +
	"[out, lake]}}\n\n"

func TestRewriteReplacesWhatATestExpectsAndNothingElse(t *testing.T) {
	one := map[string][]Batch{"out": {{Messages: []Came{{Body: []byte(`{"b":1.50,"a":"x, y"}`)},
		{Body: []byte("text: ${X}")}}}}}
	tests := []struct{ name, before, after string }{
		{
			"a block keeps its comments and its neighbours",
			"tests:\n  - name: a    # first\n    # above\n    expect:   # beside\n      out:\n        - json: {x: 1}\n\n        - text: |\n      " +
				"      two\n            lines\n    # below\n    input: [{text: x}]\n\n# The end.\n",
			"tests:\n  - name: a    # first\n    # above\n    expect: # beside\n      out:\n        - {json: {b: 1.50, a: 'x, y'}}\n        - " +
				"{text: 'text: $${X}'}\n    # below\n    input: [{text: x}]\n\n# The end.\n",
		},
		{
			"an output that is as expected stays as it is",
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      lake: # kept\n        - matches: a == 1\n      out: []\n",
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      lake: # kept\n        - matches: a == 1\n      out:\n        - " +
				"{json: {b: 1.50, a: 'x, y'}}\n        - {text: 'text: $${X}'}\n",
		},
		{
			"one line becomes a block",
			"tests:\n- name: a\n  expect: {out: [], lake: []}   # both\n  input: [{text: x}]\n",
			"tests:\n- name: a\n  expect: # both\n    out:\n      - {json: {b: 1.50, a: 'x, y'}}\n      - {text: 'text: $${X}'}\n    lake: []\n  " +
				"input: [{text: x}]\n",
		},
		{
			"what was not there is added behind the last key",
			"tests:\n  - name: a\n    input:\n      - text: |\n          x\n\n  - name: b\n    input: [{text: x}]\n    expect: {}\n",
			"tests:\n  - name: a\n    input:\n      - text: |\n          x\n    expect:\n      out:\n        - {json: {b: 1.50, a: 'x, y'}}\n    " +
				"    - {text: 'text: $${X}'}\n\n  - name: b\n    input: [{text: x}]\n    expect: {}\n",
		},
		{
			"inside braces it stays on one line",
			"tests: [{name: 'it''s', expect: {out: [{text: \"}, \\\"\"}, {text: it's}]}, input: [{text: x}]}]\n",
			"tests: [{name: 'it''s', expect: {out: [{json: {b: 1.50, a: 'x, y'}}, {text: 'text: $${X}'}]}, input: [{text: x}]}]\n",
		},
		{
			"inside braces it is added",
			"tests:\n  - {name: a, input: [{text: x}] }\n",
			"tests:\n  - {name: a, input: [{text: x}], expect: {out: [{json: {b: 1.50, a: 'x, y'}}, {text: 'text: $${X}'}]} }\n",
		},
		{
			"lines that end as on Windows stay so",
			"tests:\r\n  - name: a\r\n    expect: {}\r\n    input: [{text: x}]\r\n",
			"tests:\r\n  - name: a\r\n    expect:\r\n      out:\r\n        - {json: {b: 1.50, a: 'x, y'}}\r\n        - {text: 'text: $${X}'}\r\n " +
				"   input: [{text: x}]\r\n",
		},
		{
			"the order that does not matter still does not",
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      out: {any_order: true, messages: []}\n",
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      out:\n        any_order: true\n        messages:\n          - " +
				"{json: {b: 1.50, a: 'x, y'}}\n          - {text: 'text: $${X}'}\n",
		},
		{
			"the end of the file needs no line break",
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect: {lake: []}",
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      lake: []\n      out:\n        - {json: {b: 1.50, a: 'x, y'}}\n      " +
				"  - {text: 'text: $${X}'}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after, err := rewritten(t, rewriteHead+tt.before, Update{Outputs: one})
			if err != nil {
				t.Fatal(err)
			}
			if before != rewriteHead+tt.before {
				t.Error("the text before is not that of the file")
			}
			if diff := cmp.Diff(rewriteHead+tt.after, after); diff != "" {
				t.Errorf("rewritten (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRewriteWritesBatchesFatesAndFailures(t *testing.T) {
	_, after, err := rewritten(t,
		rewriteHead+
			"tests:\n  - name: a\n    input: [{text: x}]\n    expect: {out: {batches: []}, lake: [{}]}\n    failures:\n    - class: auth\n    - "+
			"class: late\n", Update{
			Outputs: map[string][]Batch{"out": {{Trigger: "size", Key: `"SG"`, Messages: []Came{{Body: []byte{0xff, 0}},
				{Body: []byte("1"), Err: &ExpectedError{Class: "decode", Place: "step a",
					Message: "not ${JSON}: x"}}}}}, "lake": {}},
			Fates: &Fates{Delivered: 2, Returned: 1},
			Failures: []ExpectedFailure{{ExpectedError: ExpectedError{Class: "decode", Place: "step set",
				Message: "no: ${X}"}, Fate: "returned", Count: 2}},
		})
	want := rewriteHead +
		"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      out:\n        batches:\n          - trigger: size\n            key: " +
		"SG\n            messages:\n              - {base64: /wA=}\n              - {text: \"1\", error: {class: decode, place: step a, " +
		"message: 'not $${JSON}: x'}}\n" +
		"    failures:\n      - {class: decode, place: step set, message: 'no: $${X}', fate: returned, count: 2}\n    fates: {delivered: 2, " +
		"returned: 1}\n"
	if diff := cmp.Diff(want, after); err != nil || diff != "" {
		t.Errorf("err %v, rewritten (-want +got):\n%s", err, diff)
	}
}

func TestRewriteRefusesWhatIsShared(t *testing.T) {
	for name, text := range map[string]string{
		"an anchor": "tests:\n  - name: a\n    input: [{text: x}]\n    expect: &e {out: []}\n  - name: b\n    input: [{text: x}]\n    " +
			"expect: *e\n",
		"a merge key":  "tests:\n  - &t\n    name: a\n    input: [{text: x}]\n    expect: {out: []}\n  - <<: *t\n",
		"a test alias": "tests:\n  - &t\n    name: a\n    input: [{text: x}]\n    expect: {out: []}\n  - *t\n",
	} {
		t.Run(name, func(t *testing.T) {
			last := 1
			_, _, err := rewritten(t, rewriteHead+text,
				Update{Test: last, Outputs: map[string][]Batch{"out": {{Messages: []Came{{Body: []byte("x")}}}}}})
			if err == nil || !strings.Contains(err.Error(), "change it by hand") {
				t.Errorf("err %v, want a refusal", err)
			}
		})
	}
}

func rewritten(t *testing.T, text string, u Update) (before, after string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, _ := Load([]string{path}, Options{Testing: true})
	if len(set.Pipelines) != 1 {
		t.Fatalf("%q can't be read", text)
	}
	return set.Pipelines[0].Rewrite([]Update{u})
}

// Whatever a file looks like: it is refused, or then says what arrived.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		"tests:\n  - name: a\n    input: [{text: x}]\n    expect:\n      out: []\n",
		"tests: [{name: a, input: [{text: 'it''s'}], expect: {out: [{text: \"}\"}]} # x\n }]\n",
		"tests:\n- name: a\n  expect:\n\n  # x\n    out:\n    - text: |\n        a\n  input:\n  - text: x\n",
		"tests:\n  - {name: a, input: [{text: x}],}\n",
		"tests:\n  - name: a\n    expect: {out: [], # x\n      lake: []}\n    input: []\n",
		"tests:\n  - ? name\n    : a\n    ? expect\n    : {out: []}\n    input: []\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tests string) {
		if strings.Contains(tests, "out: {") {
			return // a form that is kept
		}
		path := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(path, []byte(rewriteHead+tests), 0o600); err != nil {
			t.Fatal(err)
		}
		set, problems := Load([]string{path}, Options{Testing: true})
		if len(problems) > 0 || len(set.Pipelines) != 1 || len(set.Pipelines[0].Tests()) == 0 {
			return
		}
		const came = `{"a":["x: ${X}",1.50]}`
		_, after,
			err := set.Pipelines[0].Rewrite([]Update{{Outputs: map[string][]Batch{"out": {{Messages: []Came{{Body: []byte(came)}}}}}}})
		if err != nil {
			return
		}
		if err := os.WriteFile(path, []byte(after), 0o600); err != nil {
			t.Fatal(err)
		}
		set, problems = Load([]string{path}, Options{Testing: true})
		if len(problems) > 0 || len(set.Pipelines) != 1 {
			t.Fatalf("problems %v of\n%s", problems, after)
		}
		e, _ := set.Pipelines[0].Tests()[0].Expect.Get("out")
		if e.Messages == nil || len(*e.Messages) != 1 || string((*e.Messages)[0].Bytes()) != came {
			t.Errorf("what came is not what is expected in\n%s", after)
		}
	})
}
