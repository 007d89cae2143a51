// Package test runs whole pipelines against the built binary. A golden case is
// one file in testdata: commands, pipeline, input and expected output (see
// testdata/README.md). What needs timing or signals is Go.
package test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// repo is the root of the repository; binary the flowd that was built of it.
var repo, binary string

func TestMain(m *testing.M) {
	if addr := os.Getenv(natsAddress); addr != "" { // this process is a NATS server
		serveNATS(addr)
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // most wait for processes, and compute nothing
		_ = f.Value.Set("4")
	}
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "flowd")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if repo, err = filepath.Abs(".."); err != nil {
		return 1, err
	}
	binary = filepath.Join(dir, "flowd")
	// Slabs that are given back are written over. Where sources lie does not matter:
	// what is built of a copy of the repository, or for a document, takes what this
	// has built.
	if err := os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath -tags=scribble")); err != nil {
		return 1, err
	}
	build := exec.Command("go", "build", "-o", binary, "./cmd/flowd")
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build ./cmd/flowd: %w\n%s", err, out)
	}
	code := m.Run()
	stopEmulator()
	http.DefaultClient.CloseIdleConnections()
	if code != 0 { // a test that gives up leaves things behind
		return code, nil
	}
	return 0, goleak.Find(
		// RabbitMQ lives as long as the tests.
		goleak.IgnoreAnyFunction("github.com/flowd-io/flowd/internal/brokertest.(*lockedBuffer).read"),
	)
}

// deadline is how long any one command may take before a test fails.
const deadline = time.Minute

// compiling is likewise for one that may have to build everything.
const compiling = 4 * time.Minute

// result is what a command came to.
type result struct {
	stdout, stderr string
	code           int
}

// flowd runs the binary in dir and waits for it.
func flowd(t *testing.T, dir, stdin string, args ...string) result {
	t.Helper()
	return command(t, dir, stdin, binary, args...)
}

func command(t *testing.T, dir, stdin, name string, args ...string) result {
	t.Helper()
	return within(t, deadline, dir, stdin, name, args...)
}

func within(t *testing.T, limit time.Duration, dir, stdin, name string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %q: not back after %v\n%s%s", name, args, limit, &stdout, &stderr)
	}
	return result{stdout.String(), stderr.String(), exitCode(t, err)}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

// want fails the test unless the command ended with code and said each part on stderr.
func (r result) want(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.stdout, r.stderr)
	}
	for _, part := range stderr {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, r.stderr)
		}
	}
}

// write makes a file in dir and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
