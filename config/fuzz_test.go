package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

// Whatever a file holds, loading it ends in a plan or in problems that say
// where and what.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"a: b", "a: [1, {b: c}", "- &x |\n  a\n- *x", "a: \"\\u00e4\\\n b\"", "? a\n: b", "<<: [*a]",
		"a: >2-\n   b\n\n c",
		"\ufeffa: 'b''c'", "\t- a", "%YAML 1.2\n---\n", "a: !!binary x # y", "\u2028a: \u0085b", "{a, b: *c}",
		"outputs: {a: &x {b: *x}}",
	} {
		f.Add([]byte(seed))
	}
	cases, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(cases) == 0 {
		f.Fatal(cases, err)
	}
	for _, path := range cases {
		if path == filepath.Join("testdata", "steps-expand.yaml") {
			continue // takes long, and is a case of TestEveryMistakeHasAPlaceAndARemedy
		}
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := loader{options: Options{Lookup: lookup}}
		l.parse(source{path: "f.yaml", text: data})
		if len(l.files) == 0 && len(l.problems) == 0 {
			t.Error("neither nodes nor a problem")
		}
		for _, p := range l.problems {
			if p.Remedy == "" {
				t.Errorf("%v: want a remedy", p)
			}
		}
		for _, f := range slices.Concat(l.files, l.parts) {
			each(f.root, func(n *schema.Node) { n.Excerpt(n.At(len(n.Text) / 2)) })
		}
		set, problems := l.finish()
		for _, p := range set.Pipelines {
			p.Show()
		}
		for _, p := range problems {
			if p.Pos.Line < 1 || p.Pos.Col < 1 || p.Message == "" || p.Code == "" {
				t.Errorf("%+v: want a line, a column, a message and a code", p)
			}
		}
	})
}

// each visits n and all below it.
func each(n *schema.Node, visit func(*schema.Node)) {
	visit(n)
	for _, item := range slices.Concat(n.Keys, n.Items) {
		each(item, visit)
	}
}
