//go:build unix

package enginetest

import (
	"sync"
	"syscall"
)

var unlimited = sync.OnceValues(func() (r syscall.Rlimit, err error) {
	err = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r)
	return r, err
})

// limitFiles bounds the size of the files that this process writes; -1 lifts that.
func limitFiles(bytes int64) error {
	r, err := unlimited()
	if err != nil {
		return err
	}
	if bytes >= 0 {
		r.Cur = uint64(bytes)
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r)
}
