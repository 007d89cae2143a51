package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTextsHaveTheirPlace(t *testing.T) {
	dir := t.TempDir()
	for name, source := range map[string]string{
		"a.go": `package a

import "not a text"

// Not a text.
type settings struct {
	Path   string ` + "`yaml:\"path\" doc:\"The first text.\"`" + `
	Nested struct {
		Size int ` + "`doc:\"The second text.\" yaml:\"size,not a text\"`" + `
	} ` + "`yaml:\"not a text\"`" + `
}

func f() error { return errors.New("a text " + "in two parts, " + name + " and " + ("another")) }

var word = "word"
`,
		"a_test.go":      "package a\n\nconst s = `not a text`\n",
		"testdata/b.go":  "package b\n\nconst s = `not a text`\n",
		"inner/text.go":  "package inner\n\nvar s = `a text\n\t in two lines`\n",
		"inner/text.txt": "not a text",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	if err := write(&out, []string{"."}); err != nil {
		t.Fatal(err)
	}
	const want = `a.go:7: The first text.
a.go:9: The second text.
a.go:13: a text in two parts, … and another
inner/text.go:3: a text in two lines
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
