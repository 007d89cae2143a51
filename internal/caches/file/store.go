package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolt "go.etcd.io/bbolt/errors"
)

// The file has three buckets: keys holds sequence number, time of expiry and
// value by key; order holds time of expiry and key by sequence number; info holds
// the number of keys.
var (
	keysBucket  = []byte("flowd.cache.keys")
	orderBucket = []byte("flowd.cache.order")
	infoBucket  = []byte("flowd.cache.info")
	countKey    = []byte("count")
)

const (
	lockWait = time.Second
	head     = 16 // bytes before a value: sequence number and time of expiry
)

// open opens or makes the file.
func open(path string, sync bool) (db *bbolt.DB, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("directory of %s: %w", path, err)
	}
	o := &bbolt.Options{Timeout: lockWait, NoSync: !sync, NoGrowSync: !sync, FreelistType: bbolt.FreelistMapType}
	err = faultless(func() error {
		if db, err = bbolt.Open(path, 0o600, o); err != nil {
			return err
		}
		if err = db.Update(prepare); err != nil {
			return errors.Join(err, db.Close())
		}
		return nil
	})
	if err != nil {
		return nil, explain(path, err)
	}
	return db, nil
}

var (
	errTruncated = errors.New("it is shorter than it was")
	errForeign   = errors.New("it belongs to another program")
)

// prepare checks the file and makes what a new one lacks.
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
	}
	for _, name := range [][]byte{keysBucket, orderBucket, infoBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// explain says what is wrong with the file and what to do about it.
func explain(path string, err error) error {
	var panicked *fault
	switch {
	case errors.Is(err, bolt.ErrTimeout):
		return fmt.Errorf("%s is in use by another process, or another cache of this one (give each a `path` of its own)", path)
	case errors.As(err, &panicked), errors.Is(err, bolt.ErrInvalid), errors.Is(err, bolt.ErrChecksum), errors.Is(err, bolt.ErrVersionMismatch), errors.Is(err, bolt.ErrInvalidMapping), errors.Is(err, errTruncated):
		return fmt.Errorf("%s is damaged, or no file of a cache: %w (remove it, which forgets its values, or write another `path`)", path, err)
	case errors.Is(err, errForeign):
		return fmt.Errorf("%s is no file of a cache: %w (write another `path`)", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (give flowd the right to read and write it, or write another `path`)", err)
	}
	return err
}

// fault is a panic within the database, which it answers damage with.
type fault struct{ cause any }

func (f *fault) Error() string { return fmt.Sprint(f.cause) }

// faultless makes an error of a panic, also of one that a shortened file causes
// where it is mapped into memory.
func faultless(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &fault{r}
		}
	}()
	return f()
}

// guard makes a call to the open database.
func (f *file) guard(call func() error) error {
	if f.db == nil {
		return errClosed
	}
	err := faultless(call)
	switch {
	case errors.Is(err, bolt.ErrDatabaseNotOpen):
		return errClosed
	case err != nil:
		return explain(f.Path, err)
	}
	return nil
}

func get(tx *bbolt.Tx, key string) (value []byte, ok bool) {
	rec := tx.Bucket(keysBucket).Get([]byte(key))
	if len(rec) < head || past(rec[8:], time.Now()) {
		return nil, false
	}
	return append([]byte{}, rec[head:]...), true // the file's memory is only lent
}

// past says whether a time of expiry is over.
func past(due []byte, now time.Time) bool {
	t := int64(binary.BigEndian.Uint64(due))
	return t != 0 && t <= now.UnixNano()
}

// edit is one transaction that writes.
type edit struct {
	keys, order *bbolt.Bucket
	count       uint64
	now         time.Time
}

// commit makes all ops in one transaction, and some cleaning up.
func (f *file) commit(ops []*op) error {
	return f.guard(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			info := tx.Bucket(infoBucket)
			e := edit{keys: tx.Bucket(keysBucket), order: tx.Bucket(orderBucket), now: time.Now()}
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
	rec := e.keys.Get(key)
	if len(rec) >= head {
		if o.kind == add && !past(rec[8:], e.now) {
			return nil
		}
		if err := e.remove(rec[:8:8], key); err != nil {
			return err
		}
	}
	if o.kind == del {
		return nil
	}
	n, err := e.order.NextSequence()
	if err != nil {
		return err
	}
	seq := binary.BigEndian.AppendUint64(nil, n)
	due := binary.BigEndian.AppendUint64(nil, uint64(o.due))
	rec = make([]byte, 0, head+len(o.value))
	rec = append(append(append(rec, seq...), due...), o.value...)
	if err := e.keys.Put(key, rec); err != nil {
		return err
	}
	o.added = true
	e.count++
	return e.order.Put(seq, append(due, key...))
}

func (e *edit) remove(seq, key []byte) error {
	if err := e.order.Delete(seq); err != nil {
		return err
	}
	if e.count > 0 {
		e.count--
	}
	return e.keys.Delete(key)
}

// sweep looks at the next n keys, round and round, and removes what has expired.
func (e *edit) sweep(hand *[]byte, n int) error {
	var seqs, keys [][]byte
	c := e.order.Cursor()
	seq, rec := c.Seek(*hand)
	for ; seq != nil && n > 0; n-- {
		if len(rec) >= 8 && past(rec, e.now) {
			seqs, keys = append(seqs, seq), append(keys, rec[8:])
		}
		seq, rec = c.Next()
	}
	*hand = append((*hand)[:0], seq...)
	for i := range seqs {
		if err := e.remove(append([]byte{}, seqs[i]...), append([]byte{}, keys[i]...)); err != nil {
			return err
		}
	}
	return nil
}

// evict removes what was written first until at most limit keys are left.
func (e *edit) evict(limit uint64) error {
	for e.count > limit {
		seq, rec := e.order.Cursor().First()
		if len(rec) < 8 {
			e.count = 0 // the number was wrong, or there is nothing
			return nil
		}
		if err := e.remove(append([]byte{}, seq...), append([]byte{}, rec[8:]...)); err != nil {
			return err
		}
	}
	return nil
}
