//go:build unix

package programs

import (
	"os"
	"syscall"
)

// ownGroup gives a program a process group of its own: signals of the terminal go only to flowd, and the program can
// be killed with everything that it has started.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Kill kills a program and its group.
func Kill(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// Terminate asks a program and its group to end.
func Terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// stoppedFromOutside reports whether an operator, or the system when it ran out of memory, has killed the program.
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
