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

// buildsPrograms is set where tests may build programs that are not ours, which takes minutes on a fresh machine.
const buildsPrograms = "FLOWD_TEST_BUILD"

// goProgram is the path of a program of the Go module proxy, such as example.com/m/cmd/x@v1.2.3: that of the PATH, or
// one that was built into the user's cache. It is built outside of this module, whose go.mod knows nothing of it.
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

// skip skips a test for want of something, which stderr says, too.
func skip(t *testing.T, what string, err error) {
	t.Helper()
	why := fmt.Sprintf("%s: %v", what, err)
	fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
	t.Skip(why)
}
