package test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBreakingTheQuickstart makes a mistake in the quickstart. The error must name the place,
// the problem and the remedy.
func TestBreakingTheQuickstart(t *testing.T) {
	whole := read(t, repo, "examples", "quickstart.yaml")
	tests := []struct {
		name, old, new string
		want           []string // all in one line of stderr
	}{
		{"a misspelt component", "file: {path", "fiel: {path",
			[]string{"inputs.log", `"fiel"`, `did you mean "file"?`}},
		{"a misspelt field", "{path: examples", "{paht: examples",
			[]string{"inputs.log.file", `"paht"`, `did you mean "path"?`}},
		{"a misspelt section", "outputs:", "output:", []string{`"output"`, "write `outputs: "}},
		{"an unknown output", "output: alerts", "output: alarms",
			[]string{"batchers.critical.output", `"alarms"`, "alerts"}},
		{"an unused output", "    output: lines", "    output: alerts", []string{"outputs.lines", "unused"}},
		{"an incomplete expression", "status >= 400 ", "status >= ", []string{"processors[1].filter"}},
		{"an unknown function", `meta("line")`, `metadata("line")`, []string{"processors[2].set", "metadata"}},
		{"a duration without a unit", "timeout: 1s", "timeout: 1", []string{"batchers.critical.batch.timeout", "1s"}},
		{"a key given twice", "    key: path", "    key: client\n    key: path", []string{"key", "twice"}},
		{"a bracket that is not closed", "batch: {size: 50, timeout: 1s}", "batch: {size: 50, timeout: 1s",
			[]string{"quickstart.yaml:"}},
		{"a field name of Benthos", "    match: severity", "    check: severity",
			[]string{"batchers.critical", `"check"`, "match"}},
		{"a placeholder of an unset variable", "examples/data/access.log", `"${ACCESS_LOG}"`,
			[]string{"inputs.log.file.path", "ACCESS_LOG"}},
		{"an invalid regular expression", `(?P<client>\S+)`, `(?P<client>\S+`, []string{"processors[0].decode"}},
		{"a missing input file", "data/access.log", "data/acess.log", []string{"acess.log", "no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			broken := strings.Replace(whole, tt.old, tt.new, 1)
			if broken == whole {
				t.Fatalf("the quickstart has no %q", tt.old)
			}
			file := write(t, t.TempDir(), "quickstart.yaml", broken)
			got := flowd(t, repo, "", "-c", file)
			if got.Code == 0 {
				t.Errorf("exit code 0\nstderr:\n%s", got.Stderr)
			}
			for line := range strings.Lines(got.Stderr) {
				if containsAll(line, tt.want) {
					t.Logf("%s", strings.TrimPrefix(line, filepath.Dir(file)+"/"))
					return
				}
			}
			t.Errorf("no line contains all of %q:\n%s", tt.want, got.Stderr)
		})
	}
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

func TestTheQuickstartRuns(t *testing.T) {
	got := flowd(t, repo, "", "-c", "examples/quickstart.yaml")
	got.Want(t, 0, "quickstart: 200 received", "3 dead-lettered")
	if !strings.Contains(got.Stdout, `"errors":`) || !strings.Contains(got.Stdout, `"severity":"warning"`) {
		t.Errorf("stdout lacks summaries or lines:\n%s", got.Stdout)
	}
}
