//go:build unix

package stdout

import (
	"os"

	"golang.org/x/sys/unix"
)

// wasClosed reports whether a standard stream was closed when the process started. The
// Go runtime then opens the null device in its place, for reading and writing and for
// this descriptor alone, and writes to it succeed. Shells open it for writing, and
// daemons put one that is open for both on all three streams.
func wasClosed(f *os.File) bool {
	info, err := f.Stat()
	null, errNull := os.Stat(os.DevNull)
	if err != nil || errNull != nil || !os.SameFile(info, null) {
		return false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	_ = conn.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		closed = err == nil && flags&unix.O_ACCMODE == unix.O_RDWR && !shared(fd, flags)
	})
	return closed
}

// shared reports whether another standard stream is the same open file as fd, which has
// these flags: what is set on one shows on the other.
func shared(fd uintptr, flags int) (yes bool) {
	was := standardFlags()
	if _, err := unix.FcntlInt(fd, unix.F_SETFL, flags^unix.O_APPEND); err != nil {
		return false
	}
	for other, now := range standardFlags() {
		yes = yes || uintptr(other) != fd && now != was[other]
	}
	_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags)
	return yes
}

func standardFlags() (flags [3]int) {
	for fd := range flags {
		flags[fd], _ = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	}
	return flags
}
