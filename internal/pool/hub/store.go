package hub

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/flowd-io/flowd/internal/disk/flock"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/systems/nats/embed"
)

// store is the folder in which the NATS server of this process keeps its jobs. A lock
// in it says whose it is, for as long as that one lives.
type store struct {
	dir       string
	lock      *os.File
	temporary bool
}

const temporary = "flowd-cluster-" // and some digits: a folder among the system's temporary ones

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
		f, err := embed.OpenLock(dir, 0)
		if err != nil {
			continue
		}
		if dead, _ := flock.Lock(f); dead {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}

// take locks the folder.
func (s *store) take(owner string) (err error) {
	s.lock, err = embed.Lock(s.dir, owner)
	return err
}

// empty removes everything except the lock.
func (s *store) empty() error {
	all, err := os.ReadDir(s.dir)
	for _, e := range all {
		if e.Name() != embed.LockName {
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
