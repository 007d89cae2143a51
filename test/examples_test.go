package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExamplesAreClean lints every example on its own: no error, no warning.
func TestExamplesAreClean(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, e := range examples {
		t.Run(filepath.Base(e), func(t *testing.T) {
			got := flowd(t, repo, "", "lint", e)
			got.want(t, 0, "0 errors, 0 warnings")
			if got.stdout != "" {
				t.Error(got.stdout)
			}
		})
	}
}

// TestExamplesRun runs the examples that need no server in a directory of their
// own, with the input that their comments name or a fitting one.
func TestExamplesRun(t *testing.T) {
	tests := []struct {
		example string
		stdin   string
		stdout  []string // lines, in any order
	}{
		{"stdin-errors.yaml", `{"status":200}` + "\n" + `{"status":503, "path":"/a"}` + "\n", []string{`{"status":503, "path":"/a"}`}},
		{
			"dead-letter.yaml", `{"total": 25}` + "\nnot json\n" + `{"total": "x"}` + "\n",
			[]string{`{"total": 25,"total_eur":23}`},
		},
		{
			"split-each.yaml", `{"id": 7, "items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}]}`,
			[]string{`{"sku": "A", "qty": 2}`},
		},
		{
			"batch-archive.yaml", `{"country":"SG","n":1}` + "\n" + `{"country":"DE","n":2}` + "\n" + `{"country":"SG","n":3}` + "\n",
			nil,
		},
		{
			"order.yaml", `{"customer":"a","price":2,"qty":3}`,
			[]string{`{"customer":"a","price":2,"qty":3,"total":6}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.example, func(t *testing.T) {
			got := flowd(t, t.TempDir(), tt.stdin, "-c", filepath.Join(repo, "examples", tt.example))
			got.want(t, 0)
			if lines := lines(got.stdout); !slices.Equal(lines, tt.stdout) {
				t.Errorf("stdout\n%s\nwant\n%s", got.stdout, strings.Join(tt.stdout, "\n"))
			}
		})
	}
}

// lines are the lines of a text, sorted.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	l := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(l)
	return l
}

func TestArchiveExampleWritesOneFilePerCountry(t *testing.T) {
	dir := t.TempDir()
	input := `{"country":"SG","n":1}` + "\n" + `{"country":"DE","n":2}` + "\n" + `{"country":"SG","n":3}` + "\n"
	flowd(t, dir, input, "-c", filepath.Join(repo, "examples", "batch-archive.yaml")).want(t, 0)

	files, err := os.ReadDir(filepath.Join(dir, "lake"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		country, _, _ := strings.Cut(f.Name(), "-")
		got[country] += command(t, dir, "", "gzip", "-dc", filepath.Join("lake", f.Name())).stdout
	}
	lines := slices.Sorted(strings.Lines(got["SG"])) // without order_by they come in any order
	if want := []string{`{"country":"SG","n":1}` + "\n", `{"country":"SG","n":3}` + "\n"}; !slices.Equal(lines, want) {
		t.Errorf("SG: %q, want %q", lines, want)
	}
	if len(files) != 2 {
		t.Errorf("%d files, want 2: %v", len(files), files)
	}
}
