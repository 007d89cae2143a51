//go:build unix

package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// installing is how long that may take; RabbitMQ downloads 41 MB.
const installing = 6 * time.Minute

// Install installs a package where a file that it has is missing, without starting its services. Test binaries that
// miss it at the same time install it one after the other, and all except the first then find it.
func Install(pkg, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return errNotRoot
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "flowd-install.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()
	fmt.Fprintln(os.Stderr, "installing", pkg)
	if err = apt("install", "-y", "--no-install-recommends", pkg); err != nil {
		if err = apt("update"); err == nil { // the lists may be missing or old
			err = apt("install", "-y", "--no-install-recommends", pkg)
		}
	}
	return err
}

func apt(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %q: %w\n%s", args, err, out[max(0, len(out)-2000):])
	}
	return nil
}

// forbidServices has dpkg start no service: policy-rc.d is what it asks.
func forbidServices() (restore func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	if _, err := os.Stat(policy); err == nil { // the machine's own, as containers have it
		return func() {}, nil
	}
	if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		return nil, err
	}
	return func() { os.Remove(policy) }, nil
}
