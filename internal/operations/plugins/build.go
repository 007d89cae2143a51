// Package plugins builds a flowd with plugins of other modules ([Build]), and starts modules for new plugins ([New]).
package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/flowd-io/flowd/internal/components/builds"
)

// flowd is the path of flowd's module.
const flowd = "github.com/flowd-io/flowd"

// Build says what to build.
type Build struct {
	With   []string  // packages to link: PACKAGE, PACKAGE@VERSION, PACKAGE=DIR, or DIR
	Flowd  string    // a version of flowd, or a folder with its source; "" for the version that is running
	Tags   string    // build tags, with commas between them
	Output string    // the file to write; it replaces an older one only when the build has succeeded
	Log    io.Writer // what the go command prints
}

// source is where a module comes from: either the Go module proxy or a folder.
type source struct {
	pkg     string // import path of the package
	version string // to ask the proxy for
	dir     string // absolute, or ""
	module  string // of dir
}

// Run builds the binary with the go command, in a temporary module. Only modules without a folder need the network.
func (b Build) Run(ctx context.Context) error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("flowd is built by the go command, which is not in PATH (install Go from https://go.dev/dl)")
	}
	if info, err := os.Stat(b.Output); err == nil && info.IsDir() {
		return b.unwritable(errors.New("it is a directory"))
	}
	// The module is beside the output, so that a rename can put the binary in its place.
	dir, err := os.MkdirTemp(filepath.Dir(b.Output), ".flowd-build")
	if err != nil {
		return b.unwritable(err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil { // the go command runs in it
		return err
	}
	sources, err := b.sources(ctx)
	if err != nil {
		return err
	}
	if err := writeModule(dir, sources); err != nil {
		return err
	}
	if get := toGet(sources); len(get) > 0 {
		if err := b.run(ctx, dir, append([]string{"get"}, get...)...); err != nil {
			return fmt.Errorf("fetching %s: %w (the reason stands above; --flowd chooses another flowd, by VERSION or DIR)",
				strings.Join(get, ", "), err)
		}
	}
	program := filepath.Join(dir, "program"+filepath.Ext(b.Output))
	if err := b.run(ctx, dir, "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags="+b.Tags,
		"-o", program, "."); err != nil {
		return fmt.Errorf("go build: %w (the reason stands above)", err)
	}
	if cmp.Or(os.Getenv("GOOS"), runtime.GOOS) == runtime.GOOS && cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH) == runtime.GOARCH {
		if out, err := exec.CommandContext(ctx, program, "version").CombinedOutput(); err != nil {
			return fmt.Errorf("the new flowd does not start: %w\n%s", err, out)
		}
	}
	return b.unwritable(os.Rename(program, b.Output))
}

// unwritable returns the error for an output that can't be written, or nil.
func (b Build) unwritable(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err // it has the name of a temporary folder
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s can't be written: %w (write the binary elsewhere, with --output FILE)", b.Output, err)
}

// sources returns flowd and the plugins.
func (b Build) sources(ctx context.Context) ([]source, error) {
	self := source{pkg: flowd}
	if isDir(b.Flowd) {
		self.dir = b.Flowd
		if err := self.readModule(ctx); err != nil {
			return nil, fmt.Errorf("--flowd %s: %w", b.Flowd, err)
		}
	} else {
		var err error
		if self.version, err = version(b.Flowd); err != nil {
			return nil, err
		}
	}
	all := []source{self}
	for _, with := range b.With {
		s, err := sourceOf(ctx, with)
		if err != nil {
			return nil, fmt.Errorf("--with %s: %w", with, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// sourceOf returns what a value of --with names.
func sourceOf(ctx context.Context, with string) (s source, err error) {
	if isDir(with) {
		s.dir = with
	} else {
		s.pkg, s.dir, _ = strings.Cut(with, "=")
		s.pkg, s.version, _ = strings.Cut(s.pkg, "@")
		switch {
		case s.pkg == "":
			return s, errors.New("the package is missing (write PACKAGE@VERSION or PACKAGE=DIR)")
		case strings.Contains(with, "=") && s.dir == "":
			return s, errors.New("the folder after = is missing (write PACKAGE=DIR)")
		case s.dir != "" && s.version != "":
			return s, errors.New("a folder has no version (write PACKAGE@VERSION or PACKAGE=DIR)")
		}
	}
	if s.dir == "" {
		s.version = cmp.Or(s.version, "latest")
		return s, nil
	}
	return s, s.readModule(ctx)
}

// readModule finds out which module s.dir has.
func (s *source) readModule(ctx context.Context) (err error) {
	dir := s.dir
	if s.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.dir, "go.mod")); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s has no go.mod (give the folder of a Go module; `flowd plugin new` starts one)", dir)
	} else if err != nil {
		return err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m")
	list.Dir, list.Env = s.dir, environment()
	out, err := list.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = errors.New(strings.TrimSpace(string(failed.Stderr)))
		}
		return err
	}
	s.module = strings.TrimSpace(string(out))
	if s.pkg = cmp.Or(s.pkg, s.module); s.pkg != s.module && !strings.HasPrefix(s.pkg, s.module+"/") {
		return fmt.Errorf("%s has the module %s, which can't have the package %[3]s (write --with %[2]s=%[1]s)", dir, s.module, s.pkg)
	}
	return nil
}

// version returns the version of flowd to use, which is that of this process unless another is given.
func version(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if v := builds.Source().Version; strings.HasPrefix(v, "v") && !strings.Contains(v, "+") { // + stands for local changes
		return v, nil
	}
	return "", errors.New("this flowd was not built from a released version (say which one to use: --flowd VERSION, or --flowd DIR " +
		"for a folder with its source)")
}

// isDir reports whether a value is the path of a folder, and not a version or an import path.
func isDir(value string) bool {
	return value == "." || value == ".." || filepath.IsAbs(value) || strings.HasPrefix(value, "./") ||
		strings.HasPrefix(value, "../") || strings.HasPrefix(value, `.\`) || strings.HasPrefix(value, `..\`)
}

// writeModule writes the module of the new binary.
func writeModule(dir string, sources []source) error {
	var mod, sum, program strings.Builder
	fmt.Fprintf(&mod, "module flowd\n\ngo %s\n", goVersion)
	program.WriteString("package main\n\nimport (\n\t\"" + flowd + "/cmd/flowd/cli\"\n")
	for _, kind := range []string{"inputs", "processors", "batchers", "outputs"} {
		fmt.Fprintf(&program, "\t_ %q\n", flowd+"/"+kind)
	}
	for i, s := range sources {
		if i > 0 {
			fmt.Fprintf(&program, "\t_ %q\n", s.pkg)
		}
		if s.dir == "" {
			continue
		}
		if line := fmt.Sprintf("replace %s => %q\n", s.module, s.dir); !strings.Contains(mod.String(), line) {
			fmt.Fprintf(&mod, "\nrequire %s v0.0.0\n%s", s.module, line)
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "go.sum")) // so that no other module has to be looked up
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		sum.Write(text)
	}
	program.WriteString(")\n\nfunc main() { cli.Main() }\n")
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), []byte(sum.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o600))
}

// toGet returns what the proxy has to be asked for.
func toGet(sources []source) (get []string) {
	for _, s := range sources {
		if s.dir == "" {
			get = append(get, s.pkg+"@"+s.version)
		}
	}
	return get
}

func (b Build) run(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(), b.Log, b.Log
	return cmd.Run()
}

// environment keeps workspaces out, and links statically unless the user wants cgo.
func environment() []string {
	env := append(os.Environ(), "GOWORK=off")
	if os.Getenv("CGO_ENABLED") == "" {
		env = append(env, "CGO_ENABLED=0")
	}
	return env
}
