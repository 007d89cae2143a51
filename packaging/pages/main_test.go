package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryCommandHasAPage(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for file, part := range map[string]string{
		"man/flowd.1":            `flowd - Run pipelines written as YAML files`,
		"man/flowd-lint.1":       `.TH "FLOWD-LINT" "1"`,
		"man/flowd-ctl-reload.1": `\fBflowd ctl reload`,
		"completions/flowd.bash": "complete -o default -F __start_flowd flowd",
		"completions/flowd.zsh":  "#compdef flowd",
		"completions/flowd.fish": "complete -c flowd",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%s does not contain %q (%v)", file, part, err)
		}
	}
}
