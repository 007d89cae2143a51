//go:build !unix

package programs

import (
	"os"
	"syscall"
)

// ownGroup returns nil: this system has no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }

// Kill kills only the program itself.
func Kill(p *os.Process) error { return p.Kill() }

// Terminate kills the program itself: this system can't ask it to end.
func Terminate(p *os.Process) error { return p.Kill() }

// stoppedFromOutside returns false: this system can't tell.
func stoppedFromOutside(*os.ProcessState) bool { return false }
