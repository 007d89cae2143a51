//go:build !unix

package exec

import (
	"os"
	"syscall"
)

// ownGroup returns nil: this system has no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills only the program itself.
func killGroup(p *os.Process) error { return p.Kill() }

// stoppedFromOutside returns false: this system can't tell.
func stoppedFromOutside(*os.ProcessState) bool { return false }
