package hub

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/flowd-io/flowd/internal/disk/flock"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/systems/nats/embed"
)

// store is the folder in which the embedded NATS server keeps jobs. A lock in it belongs to a process for as long as
// that lives.
type store struct {
	dir       string
	lock      *os.File
	temporary bool
}

const temporary = "flowd-cluster-" // followed by digits: the name of a temporary folder

// openStore takes over the folder for jobs and empties it, except for its lock. owner names this process to others.
func openStore(c *wire.Config, owner string) (*store, error) {
	if c.Store != "file" || c.Dir == "" {
		removeDead()
		return temporaryStore(owner)
	}
	s := &store{dir: filepath.Join(c.Dir, "flowd-jobs")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.acquire(owner); err != nil {
		return nil, err
	}
	if err := s.empty(); err != nil { // leftovers of an earlier run
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
		if err = s.acquire(owner); err == nil {
			return s, nil
		}
		if !errors.Is(err, flock.ErrHeld) { // someone else is removing unlocked folders
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// removeDead removes the temporary folders of killed processes. Folders of other users can't be removed.
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

// acquire locks the folder.
func (s *store) acquire(owner string) (err error) {
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

// close empties the folder, and releases the lock.
func (s *store) close() {
	_ = s.empty()
	s.lock.Close()
	if s.temporary {
		_ = os.RemoveAll(s.dir)
	}
}
