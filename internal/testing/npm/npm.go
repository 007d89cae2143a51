//go:build unix

// Package npm gives tests programs that are not ours, by packages of npm.
package npm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// installing is how long that may take.
const installing = 3 * time.Minute

// Node is the major version of the Node that runs here.
func Node() (major int, err error) {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("node: %w", err)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	return strconv.Atoi(number)
}

// Install is a directory of the user's cache that has a package, such as "azurite@3.35.0", below node_modules. Test
// binaries that miss it at the same time install it one after the other, and all except the first then find it.
func Install(pkg string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "flowd-test", strings.ReplaceAll(pkg, "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.Create(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close() // which also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install %s: %w: %s", pkg, err, out)
	}
	return dir, os.WriteFile(done, nil, 0o600)
}
