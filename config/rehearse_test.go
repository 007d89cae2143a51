package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/tables"
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
		"  - name: not mocked\n    input: [{json: {}}]\n    expect: {out: []}\n  - name: of its own\n    input: [{text: \"${MINE}\"}]\n    " +
		"mocks: {look up: {}}\n    expect: {out: []}\n")
	want := []string{"processors[0].set.a: ${TOKEN} is not set", "tests[2].input[0].text: ${MINE} is not set"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestFilesAreTestedEachByItself(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": quickstart + "name: x\n", "b.yaml": quickstart +
			"name: x\nresources: {steps: {s: [{filter: a == 1}]}}\nprocessors: [{steps: s}]\n",
		"c.yaml": "inputs: {in: {pipe: nowhere}}\noutputs: {out: {stdout: {}}}\nprocessors: [{steps: s}]\ntests: [{name: t, input: [{json: " +
			"{}}], expect: {}, mocks: {filter: {}}}]\n",
	})
	set, problems := Load([]string{dir}, Options{Testing: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := set.Rehearse(set.Pipelines[2], 0)
	do := func(r Rehearsal) engine.Steps { return r.Pipeline.Processors[0].Use.Config.(engine.UsedSteps).Do }
	if len(do(r)) != 1 {
		t.Fatalf("the steps of another file are %v", do(r))
	}
	do(r)[0].Name = "changed"
	if again := set.Rehearse(set.Pipelines[2], 0); do(again)[0].Name != "" {
		t.Error("a rehearsal shows what another one did")
	}
}

func TestARehearsalHasTheTablesThatItUses(t *testing.T) {
	dir := write(t, map[string]string{"items.csv": "id,n\n1,file\n"})
	text := `
inputs: {in: {stdin: {}}}
processors: [{set: {a: 'lookup("read", 1).n'}}, {steps: s}]
outputs: {out: {stdout: {}}}
resources:
  steps: {s: [{set: {b: 'lookup("given", 1).n'}}]}
  tables:
    read: {file: "` + filepath.ToSlash(dir) + `/items.csv", key: id}
    given: {url: "${NOWHERE}", format: csv, key: id}
    unused: {file: /does/not/exist.csv, key: id}
tests:
  - name: t
    input: [{json: {}}]
    tables: {given: [{id: 1, n: test}]}
    expect: {out: [{}]}
`
	none := func(string) (string, bool, error) { return "", false, nil }
	set, problems := Load([]string{filepath.Join(write(t, map[string]string{"p.yaml": text}), "p.yaml")},
		Options{Testing: true, Lookup: none})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := set.Rehearse(set.Pipelines[0], 0)
	if len(r.Tables) != 2 {
		t.Fatalf("got tables %v, want read and given", r.Tables)
	}
	for name, want := range map[string]string{"read": "file", "given": "test"} {
		table := r.Tables[name].(*tables.Table)
		if err := table.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		v, err := table.Lookup(1)
		if row, _ := v.(map[string]any); err != nil || row["n"] != want {
			t.Errorf("%s: got %v, %v, want %s", name, v, err, want)
		}
	}
}
