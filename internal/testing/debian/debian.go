// Package debian gives tests programs that are not ours, by Debian's packages.
package debian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

var errNotRoot = errors.New("it is not installed, and only root on Debian can install it")

// Program is the path of a program on the PATH. Where it is missing, root installs the package that has it; else the
// test is skipped, which stderr says, too.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if err = Install(pkg, "/usr/bin/"+name); err == nil {
			path, err = exec.LookPath(name)
		}
	}
	if err != nil {
		why := fmt.Sprintf("no %s to test with: %v (install %s)", name, err, pkg)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	return path
}
