package objects

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

const (
	mostDone   = 1 << 20            // objects that can be remembered
	remembered = 7 * 24 * time.Hour // how long an object is that a notice has named, unless another one names it
)

// book records which objects were read, and how far. Objects that are being read, or not settled, are held.
type book struct {
	*source.Book[uint64, record]
	bucket string
	again  bool // objects are listed again, in this run or the next
	stays  bool // objects that were read are listed again, too
	most   int  // how many can be remembered

	waits []*reading // settled, and their action is not taken yet; guarded by the book
}

type listing = source.Listing[uint64, record]

// record is what the book knows of an object.
type record struct {
	key     uint64   // the hash of bucket and key
	version uint64   // the hash of key and ETag of the version that was read; 0: none
	reading *reading // of a version that is not done yet; nil: none is
}

// reading is how far a version of an object was read and settled.
type reading struct {
	Key    string `json:"key"`
	ETag   string `json:"etag"`
	Offset int64  `json:"offset"`
	Line   int    `json:"line"`
	Done   bool   `json:"done,omitempty"` // all is settled, but the action in `after` is not taken yet
	Keep   bool   `json:"keep,omitempty"` // the object can't be read, or was replaced: no action is taken

	notices []*Notice
}

func (r *reading) place() framing.Place { return framing.Place{Offset: r.Offset, Line: r.Line} }

// mark is a place in an object. It counts as soon as all messages before it are settled.
type mark struct {
	reading *reading
	place   framing.Place
	end     bool // of the object
}

// Key identifies the object.
func (o record) Key() uint64 { return o.key }

// AppendText appends both hashes, or the reading as JSON.
func (o record) AppendText(b []byte) ([]byte, error) {
	if o.reading == nil {
		var pair [16]byte
		binary.BigEndian.PutUint64(pair[:], o.key)
		binary.BigEndian.PutUint64(pair[8:], o.version)
		return hex.AppendEncode(b, pair[:]), nil
	}
	text, err := json.Marshal(o.reading)
	return append(b, text...), err
}

func newBook(src *Source, o Opening, env engine.Env) *book {
	b := &book{bucket: o.Bucket, again: !o.Notify && (src.Interval > 0 || src.Checkpoint != ""),
		stays: src.After.stays(), most: mostDone}
	cfg := source.Config[uint64, record]{Path: src.Checkpoint, Kind: o.Kind, About: o.Bucket, Log: env.Log,
		Parse: b.parse, Convert: b.convert}
	if o.Notify {
		cfg.Remember = remembered
	}
	if src.Checkpoint == "" && !b.again {
		env.Shared = nil // a reload starts afresh
	}
	b.Book = source.New(env, cfg)
	return b
}

func (b *book) parse(text []byte) (o record, err error) {
	if len(text) > 0 && text[0] == '{' {
		r := &reading{}
		if err := json.Unmarshal(text, r); err != nil {
			return o, err
		}
		return b.recordFrom(r)
	}
	pair, err := hex.DecodeString(string(text))
	if err == nil && len(pair) != 16 {
		err = fmt.Errorf("%d bytes are not two hashes", len(pair))
	}
	if err != nil {
		return o, err
	}
	return record{key: binary.BigEndian.Uint64(pair), version: binary.BigEndian.Uint64(pair[8:])}, nil
}

// recordFrom returns the record of an object that was read as far as r says.
func (b *book) recordFrom(r *reading) (o record, err error) {
	if r == nil || r.Key == "" || r.Offset < 0 || r.Line < 0 {
		return o, errors.New("it is not a place in an object")
	}
	o.key, _ = b.hashes(r.Key, "")
	o.reading = r
	return o, nil
}

// convert reads the state of a checkpoint of version 1 or 2.
func (b *book) convert(state []byte) (all []record, err error) {
	var old struct {
		Open []*reading
		Done []byte // pairs of hashes
	}
	if err := json.Unmarshal(state, &old); err != nil {
		return nil, err
	}
	if len(old.Done)%16 != 0 || len(old.Done) > 16*mostDone {
		return nil, fmt.Errorf("it has %d bytes about finished objects", len(old.Done))
	}
	for pair := range slices.Chunk(old.Done, 16) {
		all = append(all, record{key: binary.BigEndian.Uint64(pair), version: binary.BigEndian.Uint64(pair[8:])})
	}
	for i, r := range old.Open {
		o, err := b.recordFrom(r)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", i+1, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func (b *book) hashes(key, etag string) (uint64, uint64) {
	k, v := fnv.New64a(), fnv.New64a()
	k.Write([]byte(b.bucket + "\x00" + key))
	v.Write([]byte(key + "\x00" + etag))
	return k.Sum64(), v.Sum64()
}

// recordOf returns the record of the object of a reading, and whether the reading is the current one.
func (b *book) recordOf(r *reading) (o record, isCurrent bool) {
	k, _ := b.hashes(r.Key, "")
	o, _ = b.Get(k)
	o.key = k
	return o, o.reading == r
}

// begin returns the reading of an object that is to be read now. It returns nil if the object was read, or another instance
// reads it. n is the notice that named the object, or nil. It is done when the object is.
func (b *book) begin(key, etag string, n *Notice) *reading {
	b.Lock()
	defer b.Unlock()
	k, v := b.hashes(key, etag)
	o, _ := b.Get(k)
	r, held := o.reading, b.IsHeld(k)
	switch {
	case r != nil && r.ETag == etag && (held || r.Done):
		if !held { // an earlier run was interrupted before it could take the action
			b.Hold(k)
			b.waits = append(b.waits, r)
		}
		if n != nil {
			r.notices = append(r.notices, n)
		}
		return nil
	case r != nil && r.ETag == etag:
	case n == nil && o.version == v:
		return nil
	default:
		if r != nil {
			r.Keep = true // that object no longer exists
		}
		r = &reading{Key: key, ETag: etag}
		b.Put(record{k, o.version, r}, 0)
	}
	b.Hold(k)
	if n != nil {
		r.notices = append(r.notices, n)
	}
	return r
}

// knows reports whether a listed object was read, or is being read.
func (b *book) knows(l *listing, key, etag string) bool {
	b.Lock()
	defer b.Unlock()
	k, v := b.hashes(key, etag)
	l.See(k)
	o, _ := b.Get(k)
	return o.version == v || o.reading != nil && o.reading.ETag == etag && b.IsHeld(k)
}

// keep notes that an object can't be read to its end. When the messages that were read are settled, no action is taken.
func (b *book) keep(r *reading) {
	b.Lock()
	defer b.Unlock()
	r.Keep = true
}

// replaced notes that an object was replaced by another, to which its notices now belong.
func (b *book) replaced(r *reading) {
	b.Lock()
	defer b.Unlock()
	r.Keep, r.notices = true, nil
}

// full reports whether there is no room to remember one more object.
func (b *book) full(key string) bool {
	b.Lock()
	defer b.Unlock()
	k, _ := b.hashes(key, "")
	_, known := b.Get(k)
	return b.again && !known && b.Len() >= b.most
}

// settled records marks, in order.
func (b *book) settled(marks []mark) {
	b.Lock()
	defer b.Unlock()
	n := 0
	for i, m := range marks {
		m.reading.Offset, m.reading.Line = m.place.Offset, m.place.Line
		if m.end {
			m.reading.Done = true
			b.waits = append(b.waits, m.reading)
		}
		if n++; i+1 < len(marks) && marks[i+1].reading == m.reading {
			continue
		}
		if o, isCurrent := b.recordOf(m.reading); isCurrent {
			b.Put(o, n)
		}
		n = 0
	}
}

// takeSettled returns the readings whose action is to be taken, and forgets them.
func (b *book) takeSettled() (all []*reading) {
	b.Lock()
	defer b.Unlock()
	all, b.waits = b.waits, nil
	return all
}

// putBackSettled puts back readings whose action could not be taken.
func (b *book) putBackSettled(all []*reading) {
	b.Lock()
	defer b.Unlock()
	b.waits = append(b.waits, all...)
}

// finish ends readings, and returns the notices that are done with them.
func (b *book) finish(all []*reading) (done []*Notice) {
	b.Lock()
	defer b.Unlock()
	for _, r := range all {
		o, isCurrent := b.recordOf(r)
		if isCurrent {
			o.reading = nil
			b.Release(o.key)
		}
		switch {
		case b.again && (b.stays || r.Keep) && r.Key != "":
			_, o.version = b.hashes(r.Key, r.ETag)
			b.Put(o, 0)
		case isCurrent:
			b.Delete(o.key)
		}
		for _, n := range r.notices {
			if n.left--; n.left == 0 {
				done = append(done, n)
			}
		}
		r.notices = nil
	}
	return done
}
