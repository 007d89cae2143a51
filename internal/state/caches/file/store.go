package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flowd-io/flowd/internal/disk/files"
	"go.etcd.io/bbolt"
	bolt "go.etcd.io/bbolt/errors"
)

// The file has three buckets. records holds records by key. order holds time of expiry and key by sequence number.
// info holds the number of keys.
var (
	recordsBucket = []byte("flowd.cache.records")
	orderBucket   = []byte("flowd.cache.order")
	infoBucket    = []byte("flowd.cache.info")
	countKey      = []byte("count")
)

const lockWait = time.Second

// store is an open database. A panic caused by damage may leave its locks held. After one, it is never called again,
// since that could wait for ever.
type store struct {
	*bbolt.DB
	handle *os.File // its file; closing it releases the lock
	held   *files.Held
	broken atomic.Pointer[fault]
}

// run makes a call that uses the database.
func (s *store) run(call func() error) error {
	if f := s.broken.Load(); f != nil {
		return f
	}
	panicked, err := faultless(call)
	if panicked != nil {
		s.broken.Store(panicked)
		return panicked
	}
	return err
}

// Close releases the file. A broken database stays mapped into memory.
func (s *store) Close() error {
	if s.broken.Load() != nil {
		return s.handle.Close()
	}
	return s.DB.Close()
}

// open opens or creates the file.
func open(path string, sync bool) (db *store, lost bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, fmt.Errorf("directory of %s: %w", path, err)
	}
	db = &store{}
	o := &bbolt.Options{Timeout: lockWait, NoSync: !sync, NoGrowSync: !sync, FreelistType: bbolt.FreelistMapType}
	o.OpenFile = func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
		db.handle, err = os.OpenFile(name, flag, perm)
		return db.handle, err
	}
	err = db.run(func() error {
		if db.DB, err = bbolt.Open(path, 0o600, o); err != nil {
			if errors.Is(err, bolt.ErrTimeout) || errors.As(err, new(*fs.PathError)) ||
				errors.As(err, new(syscall.Errno)) {
				return err
			}
			return &fault{err} // some of its errors are not exported
		}
		if db.held, err = files.Hold(db.handle, path); err != nil {
			return err
		}
		lost = lastLost(db.DB) // before a write hides it
		err = db.Update(prepare)
		if err == nil {
			err = migrate(db.DB)
		}
		if err == nil {
			err = db.View(verify)
		}
		return err
	})
	if err != nil && (db.DB != nil || db.broken.Load() != nil) { // the file is open and locked
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return nil, false, explain(path, err)
	}
	return db, lost, nil
}

var (
	errForeign   = errors.New("it belongs to another program")
	errTruncated = &fault{"it is shorter than it was"}
	errParts     = &fault{"parts of it are missing"}
	errSum       = &fault{"a value does not match its checksum"}
	errCount     = &fault{"it does not have the values that it lists"}
)

// prepare checks the file, and initializes a new one.
func prepare(tx *bbolt.Tx) error {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return errTruncated
	}
	if tx.Bucket(infoBucket) == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return errForeign
		}
	} else if tx.Bucket(orderBucket) == nil || tx.Bucket(recordsBucket) == nil && tx.Bucket(unsummedBucket) == nil {
		return errParts
	}
	for _, name := range [][]byte{recordsBucket, orderBucket, infoBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// explain says what is wrong with the file and what to do about it.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, bolt.ErrTimeout):
		return fmt.Errorf("%s is in use by another process, or another cache of this one (give each its own `path`)",
			path)
	case errors.As(err, new(*fault)), errors.Is(err, bolt.ErrInvalid), errors.Is(err, bolt.ErrChecksum),
		errors.Is(err, bolt.ErrVersionMismatch), errors.Is(err, bolt.ErrInvalidMapping):
		return fmt.Errorf(
			"%s is damaged, or not a cache file: %w (remove it, which loses its values: what dedupe has seen is new again; or write another `path`)",
			path, err)
	case errors.Is(err, errForeign):
		return fmt.Errorf("%s is not a cache file: %w (write another `path`)", path, err)
	}
	if remedy, yes := files.Outage(err); yes {
		return fmt.Errorf("%s: %w (%s)", path, err, remedy)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (give flowd permission to read and write it, or write another `path`)", err)
	}
	return err
}

// fault is damage: an error, or a panic of the database.
type fault struct{ cause any }

func (f *fault) Error() string { return fmt.Sprint(f.cause) }

// faultless turns a panic into a fault, also one of a mapped file that was truncated.
func faultless(f func() error) (panicked *fault, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			panicked = &fault{r}
		}
	}()
	return nil, f()
}

// guard makes a call to the open database.
func (f *file) guard(call func(*store) error) error {
	f.swap.RLock()
	defer f.swap.RUnlock()
	if f.db == nil {
		return errClosed
	}
	err := f.db.run(func() error { return call(f.db) })
	switch {
	case errors.Is(err, bolt.ErrDatabaseNotOpen):
		return errClosed
	case err != nil:
		return explain(f.Path, err)
	}
	return nil
}

// maxMoves is how often a write is repeated because the file was renamed or deleted meanwhile.
const maxMoves = 3

// save writes to the file that the path names when save returns.
func (f *file) save(ops []*op) error {
	for range maxMoves {
		if err := f.find(); err != nil {
			return explain(f.Path, err)
		}
		if err := f.commit(ops); err != nil {
			return err
		}
		if _, named := f.db.held.Named(); named {
			return nil
		}
	}
	return fmt.Errorf("%s is renamed or deleted during every write", f.Path)
}

// find opens the file that the path names, unless it is open. If there is none, it restores the open file.
func (f *file) find() error {
	if _, named := f.db.held.Named(); named {
		return nil
	}
	_, err := os.Stat(f.Path)
	gone := errors.Is(err, fs.ErrNotExist)
	if gone && f.db.broken.Load() == nil {
		if err := f.db.copyTo(f.Path); err != nil {
			return err
		}
	}
	db, lost, err := open(f.Path, f.Sync)
	if err != nil {
		return err
	}
	f.warnIf(lost)
	if gone {
		f.log.Warn("the cache's file was renamed or deleted: it is created again, with what it held", "path", f.Path)
	} else {
		f.log.Warn("another file has taken the place of the cache's: its values are used from now on", "path", f.Path)
	}
	f.swap.Lock()
	old := f.db
	f.db, f.hand = db, nil
	f.swap.Unlock()
	_ = old.Close() // everything is in the new one
	return nil
}

// copyTo creates a file with the content of the database.
func (s *store) copyTo(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = s.run(func() error {
		return s.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(f)
			return err
		})
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return files.SyncDir(filepath.Dir(path))
}

// edit is a writing transaction.
type edit struct {
	records, order *bbolt.Bucket
	count          uint64
	now            int64 // Unix time in nanoseconds
}

// commit runs all ops in one transaction, and cleans up a little.
func (f *file) commit(ops []*op) error {
	return f.guard(func(db *store) error {
		return db.Update(func(tx *bbolt.Tx) error {
			info := tx.Bucket(infoBucket)
			e := edit{records: tx.Bucket(recordsBucket), order: tx.Bucket(orderBucket), now: time.Now().UnixNano()}
			e.order.FillPercent = 0.9 // its keys only grow
			if n := info.Get(countKey); len(n) == 8 {
				e.count = binary.BigEndian.Uint64(n)
			}
			for _, o := range ops {
				if err := e.apply(o); err != nil {
					return err
				}
			}
			if err := e.sweep(&f.hand, 16+2*len(ops)); err != nil {
				return err
			}
			if err := e.evict(uint64(f.MaxKeys)); err != nil {
				return err
			}
			return info.Put(countKey, binary.BigEndian.AppendUint64(nil, e.count))
		})
	})
}

func (e *edit) apply(o *op) error {
	key := []byte(o.key)
	old, err := find(e.records, key)
	if err != nil {
		return err
	}
	if old != nil {
		if err := e.remove(old.seq(), key); err != nil {
			return err
		}
	}
	if o.kind == del {
		return nil
	}
	return e.put(key, o.due, o.value)
}

// put writes a value under a new key.
func (e *edit) put(key []byte, due int64, value []byte) error {
	n, err := e.order.NextSequence()
	if err != nil {
		return err
	}
	r := newRecord(key, n, due, e.now, value)
	if err := e.records.Put(key, r); err != nil {
		return err
	}
	e.count++
	return e.order.Put(r.seq(), append(binary.BigEndian.AppendUint64(nil, uint64(due)), key...))
}

func (e *edit) remove(seq, key []byte) error {
	if err := e.order.Delete(seq); err != nil {
		return err
	}
	if e.count > 0 {
		e.count--
	}
	return e.records.Delete(key)
}

// sweep checks the next n keys in a cycle, and removes expired ones. It corrects the expiry of values that were
// written by a clock ahead of time.
func (e *edit) sweep(hand *[]byte, n int) error {
	var seqs, keys [][]byte
	c := e.order.Cursor()
	seq, entry := c.Seek(*hand)
	for ; seq != nil && n > 0; n-- {
		if len(entry) >= 8 {
			seqs, keys = append(seqs, bytes.Clone(seq)), append(keys, bytes.Clone(entry[8:]))
		}
		seq, entry = c.Next()
	}
	*hand = append((*hand)[:0], seq...)
	for i, key := range keys {
		r, err := find(e.records, key)
		switch {
		case err != nil:
			return err
		case r == nil || !bytes.Equal(r.seq(), seqs[i]):
			err = e.order.Delete(seqs[i])
		case r.over(e.now):
			err = e.remove(seqs[i], key)
		case r.ahead(e.now):
			value, left := bytes.Clone(r.value()), r.due()-r.written()
			if err = e.remove(seqs[i], key); err == nil {
				err = e.put(key, e.now+left, value)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// evict removes the oldest values until at most limit keys are left.
func (e *edit) evict(limit uint64) error {
	for e.count > limit {
		seq, rec := e.order.Cursor().First()
		if len(rec) < 8 {
			e.count = 0 // the count was wrong, or the cache is empty
			return nil
		}
		if err := e.remove(append([]byte{}, seq...), append([]byte{}, rec[8:]...)); err != nil {
			return err
		}
	}
	return nil
}
