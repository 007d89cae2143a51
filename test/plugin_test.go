package test

import (
	"path/filepath"
	"testing"
)

// TestThePluginModule builds the module examples/plugin as users build their own, and runs
// the commands of its README.
func TestThePluginModule(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repo, "examples", "plugin")
	custom := filepath.Join(t.TempDir(), "myflowd")
	build := within(t, compiling, dir, "", "go", "build", "-o", custom, ".")
	build.Want(t, 0)
	if t.Failed() {
		t.Fatal("if the repository's go.mod has changed: cd examples/plugin && go mod tidy")
	}

	command(t, dir, "", custom, "lint", "pipeline.yaml").Want(t, 0, "0 errors, 0 warnings")
	got := command(t, dir, "", custom, "-c", "pipeline.yaml")
	got.Want(t, 0, "pipeline: 3 received: 3 delivered")
	if want := "3\t***\n2\t***\n1\t***\n"; got.Stdout != want {
		t.Errorf("stdout %q, want %q", got.Stdout, want)
	}
	docs := command(t, dir, "", custom, "docs", "mask")
	docs.Want(t, 0)
}
