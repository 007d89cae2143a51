package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// record is the stored form of a value: a checksum of key and rest, sequence number, time of expiry (0: never), time
// of writing, and the value.
type record []byte

const head = 4 + 3*8 // bytes before the value

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newRecord(key []byte, seq uint64, due, written int64, value []byte) record {
	r := make(record, 4, head+len(value))
	for _, n := range []uint64{seq, uint64(due), uint64(written)} {
		r = binary.BigEndian.AppendUint64(r, n)
	}
	r = append(r, value...)
	binary.BigEndian.PutUint32(r, r.sum(key))
	return r
}

func (r record) sum(key []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, r[4:])
}

func (r record) seq() []byte    { return r[4:12:12] }
func (r record) due() int64     { return int64(binary.BigEndian.Uint64(r[12:])) }
func (r record) written() int64 { return int64(binary.BigEndian.Uint64(r[20:])) }
func (r record) value() []byte  { return r[head:] }

// ahead reports whether the record was written by a clock that is ahead of now. It then expires after the same time
// from now.
func (r record) ahead(now int64) bool { return r.due() != 0 && r.written() > now }

// over reports whether the record has expired.
func (r record) over(now int64) bool { return r.due() != 0 && r.due() <= now && !r.ahead(now) }

// find returns the record of a key, or nil.
func find(records *bbolt.Bucket, key []byte) (record, error) {
	r := record(records.Get(key))
	if r != nil && (len(r) < head || binary.BigEndian.Uint32(r) != r.sum(key)) {
		return nil, errSum
	}
	return r, nil
}

func get(tx *bbolt.Tx, key string) (value []byte, ok bool, err error) {
	r, err := find(tx.Bucket(recordsBucket), []byte(key))
	if r == nil || r.over(time.Now().UnixNano()) {
		return nil, false, err
	}
	return append([]byte{}, r.value()...), true, nil // the file's memory is only valid in the transaction
}

// verify reads the whole file: damage could otherwise look like a missing key.
func verify(tx *bbolt.Tx) error {
	records, order := tx.Bucket(recordsBucket), tx.Bucket(orderBucket)
	count, ordered, want := uint64(0), uint64(0), uint64(0)
	if n := tx.Bucket(infoBucket).Get(countKey); len(n) == 8 {
		want = binary.BigEndian.Uint64(n)
	}
	err := records.ForEach(func(key, _ []byte) error {
		r, err := find(records, key) // in the same way as later look-ups
		switch {
		case err != nil:
			return err
		case r == nil, count == want: // or a loop of pages
			return errCount
		}
		entry := order.Get(r.seq())
		if len(entry) < 8 || int64(binary.BigEndian.Uint64(entry)) != r.due() || !bytes.Equal(entry[8:], key) {
			return errCount
		}
		count++
		return nil
	})
	if err != nil {
		return err
	}
	err = order.ForEach(func(_, _ []byte) error {
		if ordered++; ordered > want {
			return errCount
		}
		return nil
	})
	if err == nil && (count != want || ordered != want) {
		err = errCount
	}
	return err
}

// lastLost reports whether one of the two pages in which the database alternately records its last write is damaged.
// It then continues from the write before.
func lastLost(db *bbolt.DB) bool {
	const header, summed = 16, 56 // bytes of a page's header, and of its checksummed part
	size := db.Info().PageSize
	pages := make([]byte, 2*size)
	f, err := os.Open(db.Path())
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := io.ReadFull(f, pages); err != nil {
		return true
	}
	for _, page := range [][]byte{pages[:size], pages[size:]} {
		sum := fnv.New64a()
		_, _ = sum.Write(page[header : header+summed])
		if binary.NativeEndian.Uint64(page[header+summed:]) != sum.Sum64() {
			return true
		}
	}
	return false
}

// unsummedBucket contains values of a version without checksums: sequence number, time of expiry and value, by key.
var unsummedBucket = []byte("flowd.cache.keys")

// migrate converts such values to records, in steps.
func migrate(db *bbolt.DB) error {
	const step = 10_000
	for more := true; more; {
		err := db.Update(func(tx *bbolt.Tx) error {
			old, records := tx.Bucket(unsummedBucket), tx.Bucket(recordsBucket)
			if more = old != nil; !more {
				return nil
			}
			now, n := time.Now().UnixNano(), 0
			var done [][]byte
			c := old.Cursor()
			for key, r := c.First(); key != nil && n < step; key, r = c.Next() {
				n++
				if len(r) < 16 {
					return errSum
				}
				if err := records.Put(key, newRecord(key, binary.BigEndian.Uint64(r),
					int64(binary.BigEndian.Uint64(r[8:])), now, r[16:])); err != nil {
					return err
				}
				done = append(done, bytes.Clone(key))
			}
			if n < step { // that was all
				count := uint64(0)
				_ = records.ForEach(func(_, _ []byte) error { count++; return nil })
				return errors.Join(tx.Bucket(infoBucket).Put(countKey, binary.BigEndian.AppendUint64(nil, count)),
					tx.DeleteBucket(unsummedBucket))
			}
			for _, key := range done {
				if err := old.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
