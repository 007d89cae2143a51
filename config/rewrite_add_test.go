package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/schema"
)

// TestWithTestKeepsTheFile adds a test to files that are written in different ways.
func TestWithTestKeepsTheFile(t *testing.T) {
	const head = "inputs: {in: {generate: {body: '{}'}}}\noutputs: {out: {drop: {}}} # the end\n"
	const added = "name: seen"
	for _, c := range []struct{ name, file, want, problem string }{
		{"no tests", head, head[:len(head)-1] + "\ntests:\n  - name: seen\n", ""},
		{"empty", head + "tests: []\n", head + "tests:\n  - name: seen\n", ""},
		{"indented", head + "tests:\n    - name: a # first\n      input: []\n\n# last\n",
			head + "tests:\n    - name: a # first\n      input: []\n    - name: seen\n", ""},
		{"not indented", "tests:\n- name: a\n  input: []\n  # more\n" + head, "tests:\n- name: a\n  input: []\n  # more\n- name: seen\n", ""},
		{"without a line break", head + "tests:\n  - {name: a, input: []}", head + "tests:\n  - {name: a, input: []}\n  - name: seen\n", ""},
		{"in brackets", head + "tests: [{name: a, input: []}]\n", "", "in brackets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.yaml")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			set, problems := config.Load([]string{path}, config.Options{Testing: true})
			if len(set.Pipelines) != 1 {
				t.Fatal(problems)
			}
			text := "a ${b}\n\x00"
			meta := schema.MapOf(schema.Entry[config.JSON]{Key: "n", Value: config.JSON(`{"big": 9007199254740993}`)})
			test := config.Test{Name: "seen", Input: []config.TestInput{{Body: config.Body{Text: &text}, Meta: meta}},
				Expect: &schema.Map[config.Expected]{}, Fates: &config.Fates{Filtered: 1}}
			got, err := set.Pipelines[0].WithTest(&test)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("got %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			for _, want := range []string{added, "base64: YSAke2J9CgA=", "9007199254740993", "expect: {}", "fates: {filtered: 1}"} {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in\n%s", want, got)
				}
			}
		})
	}
}
