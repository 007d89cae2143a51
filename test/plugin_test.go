package test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBuildWithPlugins starts a module for a plugin of each kind, builds a flowd with those and with the plugins of
// examples/plugin, without the network, and runs the commands of that example's README.
func TestBuildWithPlugins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"GOPROXY=off", "CGO_ENABLED=1", // with cgo, as in other tests, packages come from the build cache
		binary, "build", "--flowd", repo, "--tags=scribble", "-o", "myflowd"}
	example := filepath.Join(repo, "examples", "plugin")
	for _, name := range []string{"countdown", "mask", "columns"} {
		args = append(args, "--with", "example.com/myflowd/"+name+"="+example)
	}
	kinds := []string{"input", "processor", "batcher", "output"}
	for _, kind := range kinds {
		flowd(t, dir, "", "plugin", "new", kind, "my_"+kind, "--flowd", repo).Want(t, 0)
		args = append(args, "--with", "./my_"+kind)
	}
	// A build in this module leaves go.mod files out of an empty module cache that another module needs. If they can't be
	// fetched, they may be there.
	command(t, repo, "", "go", "list", "-m", "all")
	within(t, compiling, dir, "", "env", args...).Want(t, 0)
	if t.Failed() {
		t.FailNow()
	}

	custom := filepath.Join(dir, "myflowd")
	for _, kind := range kinds {
		command(t, dir, "", custom, "lint", filepath.Join("my_"+kind, "pipeline.yaml")).Want(t, 0, "0 errors, 0 warnings")
	}
	command(t, example, "", custom, "lint", "pipeline.yaml").Want(t, 0, "0 errors, 0 warnings")
	got := command(t, example, "", custom, "-c", "pipeline.yaml")
	got.Want(t, 0, "pipeline: 3 received: 3 delivered")
	if want := "3\t***\n2\t***\n1\t***\n"; got.Stdout != want {
		t.Errorf("stdout %q, want %q", got.Stdout, want)
	}
	command(t, dir, "", custom, "docs", "mask").Want(t, 0)

	// Now that all packages are in the build cache, build one that does not compile.
	write(t, dir, "broken/go.mod", "module example.com/broken\n\ngo 1.26.0\n")
	write(t, dir, "broken/a.go", "package broken\n\nfunc f() { nothing() }\n")
	before := read(t, dir, "myflowd")
	within(t, compiling, dir, "", "env", append(args, "--with", "./broken")...).
		Want(t, 1, "undefined: nothing", "go build: exit status 1 (the reason stands above)")
	if read(t, dir, "myflowd") != before {
		t.Error("a failed build has changed the binary of an earlier one")
	}
}

// TestANewPluginPassesItsTests runs the tests in a new module, outside of this one. Those of the templates run in
// internal/operations/plugins.
func TestANewPluginPassesItsTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flowd(t, dir, "", "plugin", "new", "processor", "to_upper", "--flowd", repo).Want(t, 0)
	module := filepath.Join(dir, "to_upper")
	sum, err := os.ReadFile(filepath.Join(repo, "go.sum")) // go mod tidy would need the network
	if err != nil {
		t.Fatal(err)
	}
	write(t, module, "go.sum", string(sum))
	within(t, compiling, module, "", "env", "GOPROXY=off", "GOWORK=off", "go", "test", "-mod=mod", "./...").Want(t, 0)
	flowd(t, dir, "", "plugin", "new", "processor", "to_upper", "--flowd", repo).
		Want(t, 1, "to_upper has files in it (choose another folder with --dir, or remove them)")
	flowd(t, dir, "", "plugin", "new", "cache", "x").
		Want(t, 2, `"cache" is not a kind of plugin (there are input, processor, batcher, output)`)
}

// TestBuildNamesWhatIsWrong gives flowd build modules that can't be built.
func TestBuildNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "plain/a.txt", "")
	write(t, dir, "other/go.mod", "module example.com/other\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no module", []string{"--with", "./plain", "--flowd", repo}, 1,
			[]string{"--with ./plain: ./plain has no go.mod", "flowd plugin new"}},
		{"another module", []string{"--with", "example.com/a=./other", "--flowd", repo}, 1,
			[]string{"./other has the module example.com/other", "write --with example.com/other=./other"}},
		{"no folder", []string{"--with", "example.com/a=", "--flowd", repo}, 1, []string{"the folder after = is missing"}},
		{"a folder with a version", []string{"--with", "example.com/a@v1.0.0=./other", "--flowd", repo}, 1,
			[]string{"a folder has no version"}},
		{"nothing", []string{"--with", "", "--flowd", repo}, 1, []string{"the package is missing"}},
		{"no flowd", []string{"--flowd", "./nowhere"}, 1, []string{"--flowd ./nowhere: ./nowhere has no go.mod"}},
		{"an output in no folder", []string{"--flowd", repo, "-o", "nowhere/flowd"}, 1,
			[]string{"nowhere/flowd can't be written: no such file or directory (write the binary elsewhere, with --output FILE)"}},
		{"a folder as the output", []string{"--flowd", repo, "-o", "plain"}, 1, []string{"plain can't be written: it is a directory"}},
		{"no proxy", []string{"--with", "example.com/acme/tickets@v1.0.0", "--flowd", repo}, 1,
			[]string{"fetching example.com/acme/tickets@v1.0.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"GOPROXY=off", "CGO_ENABLED=1", binary, "build", "--tags=scribble"}, tt.args...)
			within(t, compiling, dir, "", "env", args...).Want(t, tt.code, tt.says...)
		})
	}
}
