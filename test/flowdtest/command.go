// Package flowdtest runs the built binary for tests: as a command that a test waits for, or
// as a process that it talks to.
package flowdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
)

// Repo is the root of the repository. Binary is the flowd that Build has compiled.
var Repo, Binary string

// Build compiles flowd for the tests of a package; remove deletes it. It also sets GOFLAGS,
// for everything that the tests compile.
func Build() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "flowd")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return remove, fmt.Errorf("go list -m: %w", err)
	}
	Repo, Binary = strings.TrimSpace(string(root)), filepath.Join(dir, "flowd")
	// -tags=scribble overwrites returned slabs. With -trimpath, builds of a copy of the repository
	// share the build cache. Without symbols, as in a release, linking takes half the time.
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -trimpath -tags=scribble '-ldflags=-s -w'")
	if err := os.Setenv("GOFLAGS", flags); err != nil {
		return remove, err
	}
	return remove, GoBuild("-o", Binary, "github.com/flowd-io/flowd/cmd/flowd")
}

// GoBuild runs go build with args. Test binaries take turns: in parallel, each would compile all packages.
func GoBuild(args ...string) error {
	return daemon.Alone("flowd-go-build", func() error {
		if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
		return nil
	})
}

// Deadline limits a command, and anything else that a test waits for. It is long, since a busy machine needs many times as
// long as an idle one.
const Deadline = 2 * time.Minute

// lifetime limits a process that a test talks to. It is longer than Deadline, so that the test fails first, with a better
// message.
const lifetime = 5 * time.Minute

// Compiling limits a command that may have to compile all packages.
const Compiling = 4 * time.Minute

// Result is the outcome of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
	CPU            time.Duration // user and system time
}

// resultOf returns the result of a command that has exited with the error err of Wait.
func resultOf(t *testing.T, cmd *exec.Cmd, stdout, stderr string, err error) Result {
	t.Helper()
	r := Result{Stdout: stdout, Stderr: stderr, Code: exitCode(t, err)}
	if cmd.ProcessState != nil {
		r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return r
}

// Run runs the binary in dir and waits for it.
func Run(t *testing.T, dir, stdin string, args ...string) Result {
	t.Helper()
	return Command(t, dir, stdin, Binary, args...)
}

// Command is Run for any program.
func Command(t *testing.T, dir, stdin, name string, args ...string) Result {
	t.Helper()
	return Within(t, Deadline, dir, stdin, name, args...)
}

// Within is Command with another limit than Deadline.
func Within(t *testing.T, limit time.Duration, dir, stdin, name string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := startLimited(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %q did not exit within %v\n%s%s", name, args, limit, &stdout, &stderr)
	}
	return resultOf(t, cmd, stdout.String(), stderr.String(), err)
}

// startLimited starts a program. If it is flowd, its memory is limited.
func startLimited(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil || cmd.Path != Binary {
		return err
	}
	if err := limitMemory(cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) &&
		!errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("limit the memory of flowd: %w", err)
	}
	return nil
}

// exitCode returns the exit code of a program, given the error of Wait.
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

// Want fails the test unless the exit code is code and stderr contains each of the strings.
func (r Result) Want(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, part := range stderr {
		if !strings.Contains(r.Stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, r.Stderr)
		}
	}
}

// Write creates the file name in dir, and the directories above it, and returns its path.
func Write(t *testing.T, dir, name, text string) string {
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

// Read returns the content of a file.
func Read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
