package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewProgramsRun writes a program of each kind in each language, lints the pipeline beside it, and runs it.
func TestNewProgramsRun(t *testing.T) {
	t.Setenv("PYTHONPATH", filepath.Join(repo, "sdk", "python"))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	t.Setenv("RUBYLIB", filepath.Join(repo, "sdk", "ruby", "lib"))
	tests := []struct{ lang, interpreter, modules string }{
		{"python", "python3", ""},
		{"node", "node", "node_modules"},
		{"ruby", "ruby", ""},
	}
	for _, tt := range tests {
		t.Run(tt.lang, func(t *testing.T) {
			if _, err := exec.LookPath(tt.interpreter); err != nil {
				skip(t, "new programs in "+tt.lang, err)
			}
			dir := t.TempDir()
			for kind, want := range map[string]string{
				"step":   `{"id":2,"text":"message 2","length":9}` + "\n",
				"input":  `{"n":2}` + "\n",
				"output": "",
			} {
				name := "my_" + kind
				flowd(t, dir, "", "plugin", "new", "--lang", tt.lang, kind, name).Want(t, 0)
				if tt.modules != "" { // which has no variable for a path of modules
					symlink(t, filepath.Join(repo, "sdk", tt.lang), filepath.Join(dir, name, tt.modules, "flowd-sdk"))
				}
				pipeline := filepath.Join(name, "pipeline.yaml")
				flowd(t, dir, "", "lint", pipeline).Want(t, 0, "0 errors, 0 warnings")
				got := flowd(t, dir, "", "-c", pipeline)
				got.Want(t, 0, "3 received: 3 delivered")
				if !strings.Contains(got.Stdout, want) {
					t.Errorf("the %s gives %q, want %q in it", kind, got.Stdout, want)
				}
			}
			if got, want := read(t, dir, "my_output", "messages.ndjson"), `{"id":1}`+"\n"+`{"id":2}`+"\n"+`{"id":3}`+"\n"; got != want {
				t.Errorf("the output wrote %q, want %q", got, want)
			}
		})
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}
