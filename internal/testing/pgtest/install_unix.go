//go:build unix

package pgtest

import (
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/debian"
)

// programs is where Debian has those of version 15.
const programs = "/usr/lib/postgresql/15/bin"

func installed() error { return debian.Install("postgresql-15", filepath.Join(programs, "postgres")) }

func unprivileged(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: daemon.Nobody()}
}
