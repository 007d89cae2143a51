//go:build !unix

package exec

import (
	"os"
	"syscall"
)

// ownGroup is nothing: there are no process groups here.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills the program alone.
func killGroup(p *os.Process) error { return p.Kill() }

// stoppedFromOutside can't be determined here.
func stoppedFromOutside(*os.ProcessState) bool { return false }
