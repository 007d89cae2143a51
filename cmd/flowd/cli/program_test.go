package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/program/conform"
)

func TestProgramCheck(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("SKIPPED: there is no shell: ", err)
	}
	sample := filepath.Join(t.TempDir(), "sample")
	if err := os.WriteFile(sample, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `echo "I am \033[31mred"; echo "no such model" >&2; exit 3`
	tests := []struct {
		name        string
		args        []string
		code        int
		out, errors string
	}{
		{"a program that ends", []string{"--", "sh", "-c", script}, failed,
			"wrong    it starts\n         it did not answer `hello`: it exited (exit status 3: no such model)\n" +
				"         docs/programs.md, \"The start\": The program prepares its work", `program: I am \u001b[31mred`},
		{"flags of the program", []string{"sh", "-c", script, "--json"}, failed, "1 case: 1 wrong\n", "program: no such model"},
		{"no program", nil, invalid, "", "requires at least 1 arg"},
		{"not in PATH", []string{"--", "no-such-program"}, invalid, "", `program "no-such-program" is not in PATH`},
		{"a kind", []string{"--kind", "sink", "sh"}, invalid, "", "--kind sink: expected step, input or output"},
		{"a config", []string{"--config", "{a: 1}", "sh"}, invalid, "", "--config is not valid JSON"},
		{"a case", []string{"--case", "coffee", "sh"}, invalid, "", `there is no case "coffee" (there are it starts; one message;`},
		{"a sample", []string{"--sample", sample, "sh"}, invalid, "", "is empty"},
		{"a time", []string{"--timeout", "0s", "sh"}, invalid, "", "--timeout and --start-timeout must be positive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := execute(t.Context(), append([]string{"program", "check"}, tt.args...), &out, &errs)
			if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errors) {
				t.Errorf("got %d\n%s%s\nwant %d\n%s\n%s", code, &out, &errs, tt.code, tt.out, tt.errors)
			}
		})
	}
	var out, errs bytes.Buffer
	if code := execute(t.Context(), []string{"program", "check", "--json", "sh", "-c", script}, &out, &errs); code != failed {
		t.Errorf("got %d", code)
	}
	var outcome conform.Outcome
	if err := json.Unmarshal(out.Bytes(), &outcome); err != nil || outcome.Verdict != conform.Wrong || outcome.Section != "The start" {
		t.Errorf("%s: %v", &out, err)
	}
}
