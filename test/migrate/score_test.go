package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of a checkout that the score reads.
var checkout = map[string]string{
	"docs/methods.md": "# Methods\n\n```coffee\nroot.a = this.a.uppercase()\n\n# In:  {\"a\":\"x\"}\n" +
		"# Out: {\"a\":\"X\"}\n\n" +
		"# In:  {\"a\":\"y\"}\n# Out: {\"a\":\"wrong\"}\n```\n\n" +
		"```coffee\nroot.b = this.a.nonsense()\n\n# In:  {}\n# Out: {}\n```\n\n" +
		"```yaml\na: 1\n```\n\n```coffee\nroot = if this.a == 1 { throw(\"one\") } else { deleted() }\n\n" +
		"# In:  {\"a\":1}\n# Out: Error(\"failed: one\")\n\n# In:  {\"a\":2}\n# Out: <Message deleted>\n```\n\n" +
		"```coffee\nroot = content().uppercase()\n\n# In:  a b\n# Out: A B\n```\n",
	"docs/.hidden/more.md": "```coffee\nroot.c = 1\n\n# In:  {}\n# Out: {\"c\":1}\n```\n",
	"plugins/a.go": "package plugins\n\nvar _ = NewExampleSpec(\"\", `root.d = 1`, `{}`, `{\"d\":1}`)\n" +
		"var _ = spec.Example(\"\", \"root.e = \"+\"2\", [2]string{`{}`, `{\"e\":3}`})\n",
}

func peerAt(t *testing.T, keep func(name string) bool) string {
	dir := t.TempDir()
	for name, text := range checkout {
		if !keep(name) {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDocumentedExamplesAreScored(t *testing.T) {
	tests := []struct {
		name string
		keep func(string) bool
		want []string
	}{
		{"examples in the documentation", func(string) bool { return true }, []string{
			"different: docs/methods.md:3\n", "want {\"a\":\"wrong\"}\n    got  {\"a\":\"Y\"}\n",
			"untranslated: docs/methods.md:13\n", "flowd has no counterpart of the method nonsense().",
			"4 examples with 6 results: 4 same (66.7 %), 1 different, 1 untranslated; 2 examples with only same results (50.0 %)\n",
		}},
		{"without documentation, examples in the sources", func(name string) bool { return strings.HasSuffix(name, ".go") }, []string{
			"different: plugins/a.go:4\n", "2 examples with 2 results: 1 same (50.0 %), 1 different, 0 untranslated",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if err := scoreBloblang([]string{"--peer", peerAt(t, tt.keep)}, &out); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the score lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}
