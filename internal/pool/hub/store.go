package hub

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flowd-io/flowd/internal/flock"
	"github.com/flowd-io/flowd/internal/pool/wire"
)

// store is the folder in which the NATS server of this process keeps its jobs. A lock
// in it says whose it is, for as long as that one lives.
type store struct {
	dir       string
	lock      *os.File
	temporary bool
}

const (
	lockName  = "lock"
	temporary = "flowd-cluster-" // and some digits: a folder among the system's temporary ones
)

// openStore takes the folder for jobs and removes everything in it except its lock. owner
// names this process to others that want it.
func openStore(c *wire.Config, owner string) (*store, error) {
	if c.Store != "file" || c.Dir == "" {
		removeDead()
		return temporaryStore(owner)
	}
	s := &store{dir: filepath.Join(c.Dir, "flowd-jobs")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.take(owner); err != nil {
		return nil, err
	}
	if err := s.empty(); err != nil { // of a run before
		s.close()
		return nil, err
	}
	return s, nil
}

func temporaryStore(owner string) (*store, error) {
	for {
		dir, err := os.MkdirTemp("", temporary)
		if err != nil {
			return nil, err
		}
		s := &store{dir: dir, temporary: true}
		if err = s.take(owner); err == nil {
			return s, nil
		}
		if !errors.Is(err, flock.ErrHeld) { // by one that removes what nobody has locked
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// removeDead removes the temporary folders of processes that were killed. What can't be
// removed belongs to another user.
func removeDead() {
	all, err := filepath.Glob(filepath.Join(os.TempDir(), temporary+"*"))
	if err != nil {
		return
	}
	for _, dir := range all {
		f, err := openLock(filepath.Join(dir, lockName), 0)
		if err != nil {
			continue
		}
		if dead, _ := flock.Lock(f); dead {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}

func openLock(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK|flags, 0o600) // to open a pipe does not wait
}

// take locks the folder.
func (s *store) take(owner string) error {
	path := filepath.Join(s.dir, lockName)
	f, err := openLock(path, os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = flock.Lock(f)
	if held := errors.Is(err, flock.ErrHeld); held && !s.temporary {
		err = fmt.Errorf("%s belongs to %s (stop that one, or give each its own dir)", s.dir, holder(f))
	} else if err == nil {
		err = s.own(f, path, owner)
	}
	if err != nil {
		f.Close()
		return err
	}
	s.lock = f
	return nil
}

// own writes into a lock whose it is.
func (s *store) own(f *os.File, path, owner string) error {
	here, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(here, now) { // removed just before it was locked
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

// empty removes everything except the lock.
func (s *store) empty() error {
	all, err := os.ReadDir(s.dir)
	for _, e := range all {
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// close removes what is in the folder, and releases it.
func (s *store) close() {
	_ = s.empty()
	s.lock.Close()
	if s.temporary {
		_ = os.RemoveAll(s.dir)
	}
}
