package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// buildsPrograms is a variable that allows tests to build third-party programs, which takes minutes on a fresh machine.
const buildsPrograms = "FLOWD_TEST_BUILD"

// goProgram returns the path of a program such as example.com/m/cmd/x@v1.2.3: from PATH, or built into the user's cache
// with the Go module proxy. It is built outside of this module, whose go.mod does not have it.
func goProgram(pkg string) (string, error) {
	module, version, _ := strings.Cut(pkg, "@")
	name := path.Base(module)
	if found, err := exec.LookPath(name); err == nil {
		return found, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "flowd-test", name+"-"+version)
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if os.Getenv(buildsPrograms) == "" {
		return "", fmt.Errorf("%s is not installed (with %s=1 the tests build it, once)", name, buildsPrograms)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", pkg)
	install.Dir, install.Env = os.TempDir(), append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w: %s", pkg, err, out)
	}
	return program, nil
}

// skip skips a test because something is missing, and also says so on stderr.
func skip(t *testing.T, what string, err error) {
	t.Helper()
	why := fmt.Sprintf("%s: %v", what, err)
	fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
	t.Skip(why)
}
