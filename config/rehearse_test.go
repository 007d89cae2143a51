package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATestNeedsOnlyThePlaceholdersOfWhatItRuns(t *testing.T) {
	const file = `
inputs: {in: {http_server: "${ADDRESS}"}}
processors:
  - name: look up
    set: {a: '"${TOKEN}"'}
outputs: {out: {file: {path: "${WHERE}"}, timeout: "${TIMEOUT:-5s}"}}
service: {listen: "${LISTEN}"}
tests:
  - name: mocked
    input: [{json: {}}]
    mocks: {look up: {a: 1}}
    expect: {out: [{}]}
`
	none := func(string) (string, bool, error) { return "", false, nil }
	load := func(text string) (*Set, []string) {
		set, problems := Load([]string{filepath.Join(write(t, map[string]string{"p.yaml": text}), "p.yaml")},
			Options{Testing: true, Lookup: none})
		var said []string
		for _, p := range problems {
			said = append(said, p.Path+": "+p.Message)
		}
		return set, said
	}
	if _, said := load(file); len(said) > 0 {
		t.Errorf("problems are %q, want none", said)
	}
	_, said := load(file +
		"  - name: not mocked\n    input: [{json: {}}]\n    expect: {out: []}\n  - name: of its own\n    input: [{text: \"${MINE}\"}]\n    mocks: {look up: {}}\n    expect: {out: []}\n")
	want := []string{"processors[0].set.a: ${TOKEN} is not set", "tests[2].input[0].text: ${MINE} is not set"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestFilesAreTestedEachByItself(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": quickstart + "name: x\n", "b.yaml": quickstart +
			"name: x\nresources: {steps: {s: [{filter: a == 1}]}}\nprocessors: [{steps: s}]\n",
		"c.yaml": "inputs: {in: {pipe: nowhere}}\noutputs: {out: {stdout: {}}}\nprocessors: [{steps: s}]\ntests: [{name: t, input: [{json: {}}], expect: {}, mocks: {filter: {}}}]\n",
	})
	set, problems := Load([]string{dir}, Options{Testing: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := set.Rehearse(set.Pipelines[2], 0)
	if len(r.Steps["s"]) != 1 {
		t.Fatalf("the steps of another file are %v", r.Steps)
	}
	r.Steps["s"][0].Name = "changed"
	if again := set.Rehearse(set.Pipelines[2], 0); again.Steps["s"][0].Name != "" {
		t.Error("a rehearsal shows what another one did")
	}
}
