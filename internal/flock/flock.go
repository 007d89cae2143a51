//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Works says that there are locks, and that an open file is a locked one.
const Works = true

// Lock locks an open file until it is closed, or the process ends. A file system
// without locks does without.
func Lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return nil
}
