package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFormattedFilesMeanTheSame formats files with twice the usual indentation, and compares what is in force.
func TestFormattedFilesMeanTheSame(t *testing.T) {
	cases, err := filepath.Glob("testdata/valid-*.yaml")
	more, _ := filepath.Glob("../examples/*.yaml")
	if err != nil || len(cases) < 8 || len(more) < 50 {
		t.Fatalf("%d and %d files: %v", len(cases), len(more), err)
	}
	indentation, dash, origin := regexp.MustCompile(`(?m)^ +`), regexp.MustCompile(`(?m)^( *- )`), regexp.MustCompile(`(?m) *# .*$`)
	for _, path := range slices.Concat(cases, more) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wide := string(text)
		if !strings.Contains(wide, "- |") && !strings.Contains(wide, ": |") { // text keeps its indentation
			wide = indentation.ReplaceAllStringFunc(wide, func(s string) string { return s + s })
			wide = dash.ReplaceAllString(wide, "$1  ")
		}
		f, problems := FormatText(path, []byte(wide))
		if len(problems) > 0 {
			t.Errorf("%s: %v", path, problems)
			continue
		}
		shown := func(text string) (all []string) {
			file := filepath.Join(t.TempDir(), "p.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			set, _ := Load([]string{file}, Options{Lookup: lookup, Testing: true})
			for _, p := range set.Pipelines {
				all = append(all, origin.ReplaceAllString(p.Show(), ""))
			}
			return all
		}
		if before, after := shown(string(text)), shown(f.After); !slices.Equal(before, after) {
			t.Errorf("%s: formatted, it means\n%s\ninstead of\n%s", path, after, before)
		}
	}
}
