//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Works says that this system has locks.
const Works = true

// Lock locks an open file until it is closed or the process ends. The error is [ErrHeld] or nil. locked is false on
// file systems without locks.
func Lock(f *os.File) (locked bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, ErrHeld
	}
	return err == nil, nil
}
