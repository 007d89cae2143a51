package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/schema"
)

var update = flag.Bool("update", false, "write the expected problems of testdata anew")

// Each testdata/NAME.yaml has the problems of testdata/NAME.txt, one a line.
// Where NAME is a directory, its files are one set.
func TestEveryMistakeHasAPlaceAndARemedy(t *testing.T) {
	cases, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range cases {
		if filepath.Ext(path) == ".txt" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			_, problems := Load([]string{path}, Options{Lookup: lookup})
			checkGolden(t, strings.TrimSuffix(path, ".yaml")+".txt", problems)
		})
	}
}

func checkGolden(t *testing.T, path string, problems []schema.Problem) {
	t.Helper()
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(filepath.ToSlash(p.Render()) + "\n")
	}
	got := strings.ReplaceAll(b.String(), "testdata/", "")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("problems of %s (-want +got):\n%s", path, diff)
	}
	for _, p := range problems {
		if p.Pos.Line == 0 {
			t.Errorf("%v has no line", p)
		}
	}
}

// lookup finds a few placeholders.
func lookup(name string) (string, bool, error) {
	switch name {
	case "AMQP_URL":
		return "amqp://localhost", true, nil
	case "WHERE":
		return "out.ndjson", true, nil
	case "STATUS":
		return "500", true, nil
	}
	return "", false, nil
}
