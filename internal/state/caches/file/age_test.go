package file

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"go.etcd.io/bbolt"
)

// Warned is what a cache logs.
func Warned(c engine.Cache) *bytes.Buffer {
	b := &bytes.Buffer{}
	c.(*file).log = slog.New(slog.NewTextHandler(b, nil))
	return b
}

// Age makes a file what it would be had it been written so much earlier; a negative
// time makes it one of a clock that was ahead.
func Age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	db, _, err := open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		e := edit{records: tx.Bucket(recordsBucket), order: tx.Bucket(orderBucket)}
		type entry struct {
			key []byte
			r   record
		}
		var all []entry
		err := e.records.ForEach(func(key, r []byte) error {
			all = append(all, entry{append([]byte{}, key...), append(record{}, r...)})
			return nil
		})
		for _, x := range all {
			due := x.r.due()
			if due != 0 {
				due -= int64(by)
			}
			e.now = x.r.written() - int64(by)
			if err == nil {
				err = e.remove(x.r.seq(), x.key)
			}
			if err == nil {
				err = e.put(x.key, due, x.r.value())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
