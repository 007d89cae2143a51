//go:build unix

package brokertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// scripts are the package's own scripts, which run as whoever calls them.
const scripts = "/usr/lib/rabbitmq/bin"

// installing is how long that may take; 41 MB are downloaded.
const installing = 6 * time.Minute

// installed is the script that starts a node. Test binaries that find none at the same time
// install it one after the other, and all except the first then find it.
func installed() (string, error) {
	script := filepath.Join(scripts, "rabbitmq-server")
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errNotRoot
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "flowd-rabbitmq-install.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	return script, install()
}

func install() error {
	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()
	fmt.Fprintln(os.Stderr, "brokertest: installing rabbitmq-server")
	if err = apt("install", "-y", "--no-install-recommends", "rabbitmq-server"); err != nil {
		if err = apt("update"); err == nil { // the lists may be missing or old
			err = apt("install", "-y", "--no-install-recommends", "rabbitmq-server")
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

// ownGroup makes a process lead its own group, out of reach of Ctrl-C.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
