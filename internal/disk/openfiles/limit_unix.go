//go:build unix

package openfiles

import "syscall"

// limit returns how many descriptors the process may have.
func limit() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 4 * fewest
	}
	return uint64(r.Cur) //nolint:unconvert // signed on some systems
}
