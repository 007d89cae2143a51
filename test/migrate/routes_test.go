package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/migrate"
)

// completeCase is a configuration that is translated and run, with the expected files.
type completeCase struct {
	name   string
	config string
	in     map[string]string // files to read, lines joined by blanks
	want   map[string]string // files that are written, in the same way; their order does not count
	says   []string          // what the translation says
}

// lines makes the input file in.txt.
func lines(all string) map[string]string { return map[string]string{"in.txt": all} }

// runTranslated translates a configuration, runs it, and returns the translation.
func runTranslated(t *testing.T, tt completeCase) string {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range tt.in {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, " ", "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(tt.config, "input:") {
		tt.config = "input: {file: {paths: [in.txt], codec: lines}}\n" + tt.config
	}
	res, err := migrate.Benthos("c.yaml", []byte(tt.config), migrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made := string(res.Outputs[0].Text)
	for _, n := range res.Notes {
		if n.Kind == migrate.Untranslated {
			t.Errorf("not translated: %s", n.Text)
		}
	}
	file := made
	if !strings.Contains(made, "engine:") {
		file += "engine: {workers: 1}\n" // as if order mattered
	}
	if err := os.WriteFile("m.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems := config.Load([]string{"m.yaml"}, config.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	for _, p := range problems {
		t.Errorf("lint: %v", p)
	}
	if t.Failed() {
		t.Fatal(made)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	set.Pipelines[0].Plan.Run(ctx, ctx)
	return made
}

// sorted sorts lines, whose order may vary.
func sorted(text string) string {
	all := strings.Fields(text)
	slices.Sort(all)
	return strings.Join(all, " ")
}

func testTranslated(t *testing.T, all []completeCase) {
	t.Helper()
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			made := runTranslated(t, tt)
			names, _ := filepath.Glob("*")
			got := map[string]string{}
			for _, name := range names {
				if _, read := tt.in[name]; read || filepath.Ext(name) == ".yaml" {
					continue
				}
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if text := sorted(string(data)); text != "" {
					got[name] = text
				}
			}
			want := map[string]string{}
			for name, text := range tt.want {
				want[name] = sorted(text)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got the files\n%v\nwant\n%v\nfrom\n%s", got, want, made)
			}
			said := strings.ReplaceAll(made, "\n# ", " ")
			for _, text := range tt.says {
				if !strings.Contains(said, text) {
					t.Errorf("the translation lacks %q:\n%s", text, made)
				}
			}
		})
	}
}

const output = "{label: %[1]s, file: {path: %[1]s.txt, codec: lines}}"

// fileOutput is an output that writes lines to a file with its name.
func fileOutput(name string) string { return fmt.Sprintf(output, name) }

const three = `{"id":1} {"id":2} {"id":3}`

// A translation must write the same messages to the same outputs.
func TestRoutesToOutputs(t *testing.T) {
	testTranslated(t, []completeCase{
		{"a broker with an output and a switch", `
output:
  broker:
    outputs:
      - ` + fileOutput("raw") + `
      - switch: {cases: [{check: this.id == 1, output: ` + fileOutput("one") + `}]}`,
			lines(three), map[string]string{"raw.txt": three, "one.txt": `{"id":1}`}, nil},
		{"a broker with a switch that does not match all messages", `
output:
  broker:
    outputs:
      - ` + fileOutput("raw") + `
      - switch: {strict_mode: true, cases: [{check: this.id == 1, output: ` + fileOutput("one") + `}]}`,
			lines(three), map[string]string{"raw.txt": three, "one.txt": `{"id":1}`}, nil},
		{"a first case that all messages pass", `
output:
  switch:
    cases:
      - {continue: true, output: ` + fileOutput("audit") + `}
      - {check: this.id == 1, output: ` + fileOutput("one") + `}
      - {check: this.id == 2, output: ` + fileOutput("two") + `}`,
			lines(three), map[string]string{"audit.txt": three, "one.txt": `{"id":1}`, "two.txt": `{"id":2}`}, nil},
		{"a first case that matches all messages", `
output:
  switch:
    cases:
      - {output: ` + fileOutput("all") + `}
      - {check: this.id == 1, output: ` + fileOutput("one") + `}`,
			lines(three), map[string]string{"all.txt": three},
			[]string{"Differs: cases after one without a check are never reached: they are left out"}},
		{"a switch in a broker in a case with continue", `
output:
  switch:
    cases:
      - check: this.t == "a"
        continue: true
        output:
          broker:
            outputs:
              - ` + fileOutput("a") + `
              - switch: {cases: [{check: this.id == 1, output: ` + fileOutput("b") + `}, {output: ` + fileOutput("c") + `}]}
      - {output: ` + fileOutput("all") + `}`,
			lines(`{"t":"a","id":1} {"t":"a","id":2} {"t":"z","id":3}`), map[string]string{
				"a.txt": `{"t":"a","id":1} {"t":"a","id":2}`, "b.txt": `{"t":"a","id":1}`, "c.txt": `{"t":"a","id":2}`,
				"all.txt": `{"t":"a","id":1} {"t":"a","id":2} {"t":"z","id":3}`}, nil},
		{"a switch in a case with continue sends a message to one output", `
output:
  switch:
    cases:
      - check: this.t == "a"
        continue: true
        output:
          switch:
            cases:
              - {check: this.total > 1000, output: ` + fileOutput("big") + `}
              - {check: this.total > 100, output: ` + fileOutput("mid") + `}
      - {output: ` + fileOutput("all") + `}`,
			lines(`{"t":"a","total":5000} {"t":"a","total":500} {"t":"a","total":5}`), map[string]string{
				"big.txt": `{"t":"a","total":5000}`, "mid.txt": `{"t":"a","total":500}`,
				"all.txt": `{"t":"a","total":5000} {"t":"a","total":500} {"t":"a","total":5}`}, nil},
		{"messages that a switch in a case does not match are dropped", `
output:
  switch:
    cases:
      - check: this.id < 3
        output: {switch: {cases: [{check: this.id == 1, output: ` + fileOutput("one") + `}, {check: this.id == 9, output: ` +
			fileOutput("nine") + `}]}}
      - {output: ` + fileOutput("rest") + `}`,
			lines(three), map[string]string{"one.txt": `{"id":1}`, "rest.txt": `{"id":3}`}, nil},
		{"messages that a strict switch in a case does not match fail", `
output:
  switch:
    cases:
      - {check: errored(), output: {label: dead, file: {path: dead.txt, codec: lines}}}
      - check: this.id < 3
        output:
          switch:
            strict_mode: true
            cases: [{check: this.id == 1, output: ` + fileOutput("one") + `}, {check: this.id == 9, output: ` + fileOutput("nine") + `}]
      - {output: ` + fileOutput("rest") + `}`,
			lines(three), map[string]string{"one.txt": `{"id":1}`, "dead.txt": `{"id":2}`, "rest.txt": `{"id":3}`}, nil},
		{"steps of a nested broker apply to its outputs", `
output:
  broker:
    outputs:
      - ` + fileOutput("a") + `
      - broker: {outputs: [` + fileOutput("b") + `, ` + fileOutput("c") + `]}
        processors: [{mapping: root.n = this.id}]`,
			lines(`{"id":1}`), map[string]string{"a.txt": `{"id":1}`, "b.txt": `{"n":1}`, "c.txt": `{"n":1}`}, nil},
		{"copies of an output write copies", `
output: {broker: {copies: 3, outputs: [` + fileOutput("a") + `]}}`,
			lines("x"), map[string]string{"a.txt": "x x x"}, nil},
		{"copies of an output that is defined elsewhere", `
output: {broker: {copies: 2, outputs: [{resource: a}]}}
output_resources: [` + fileOutput("a") + `]`,
			lines("x"), map[string]string{"a.txt": "x x"}, nil},
		{"copies of outputs in turn share the messages", `
output: {broker: {copies: 2, pattern: round_robin, outputs: [` + fileOutput("a") + `]}}`,
			lines("x y"), map[string]string{"a.txt": "x y"}, nil},
	})
}
