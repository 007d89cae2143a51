package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// The expected results of package migrate's tests must lint, and their own tests must pass. Incompletely translated files
// are left out.
func TestMigratedFilesLintAndTheirTestsPass(t *testing.T) {
	names, err := filepath.Glob("../internal/migrate/testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for _, f := range a.Files {
			out, ok := strings.CutPrefix(f.Name, "want/")
			if !ok || bytes.Contains(f.Data, []byte("untranslated")) {
				continue
			}
			file := filepath.Join(dir, out)
			if err := os.WriteFile(file, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(f.Data, []byte("inputs:")) { // a file of resources only is for other files to include
				file = filepath.Join(dir, "includes.yaml")
				text := "include: " + out + "\ninputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}}\n"
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{{"lint", file}, {"test", "--allow-empty", file}} {
				cmd := exec.Command(binary, args...)
				cmd.Env = append(os.Environ(), "KAFKA_PASSWORD=secret")
				if text, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: flowd %s: %v\n%s\n%s", filepath.Base(name), args[0], err, text, f.Data)
				}
			}
		}
	}
}
