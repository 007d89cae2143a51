//go:build unix

package exec

import (
	"os"
	"syscall"
)

// ownGroup gives a program a process group: the terminal's signals are for flowd
// alone, and all that the program starts can be killed with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a program and what it has started.
func killGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// stoppedFromOutside reports whether a program did not end by itself: an operator or
// the system, short of memory, has stopped it.
func stoppedFromOutside(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return false
	}
	switch status.Signal() {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		return true
	}
	return false
}
