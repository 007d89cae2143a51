package embed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flowd-io/flowd/internal/disk/flock"
)

// LockName is the name of the lock file of a folder, which names the owner.
const LockName = "lock"

// OpenLock opens the lock file of a folder. It does not wait, even if the file is a pipe.
func OpenLock(dir string, flags int) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|syscall.O_NONBLOCK|flags, 0o600)
}

// Lock locks a folder for this process until the returned file is closed. If another process has the lock, the error wraps
// [flock.ErrHeld] and contains the owner that this process has given.
func Lock(dir, owner string) (*os.File, error) {
	f, err := OpenLock(dir, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if _, err = flock.Lock(f); errors.Is(err, flock.ErrHeld) {
		err = held(fmt.Sprintf("%s belongs to %s (stop that one, or give each its own folder)", dir, holder(f)))
	} else if err == nil {
		err = writeOwner(f, owner)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// held is the error of a lock that another process has.
type held string

func (h held) Error() string { return string(h) }
func (held) Unwrap() error   { return flock.ErrHeld }

// writeOwner writes the owner into a lock file.
func writeOwner(f *os.File, owner string) error {
	here, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(f.Name()); err != nil || !os.SameFile(here, now) { // the file was removed just before it was locked
		return flock.ErrHeld
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "process %d, %s", os.Getpid(), owner)
	return err
}

// holder names the process that has the lock.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 1000))
	if err != nil || len(text) == 0 {
		return "another flowd"
	}
	return "another flowd: " + string(text)
}
