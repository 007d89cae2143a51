package objects

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/checkpoint"
	"github.com/flowd-io/flowd/internal/framing"
)

const (
	mostDone   = 1 << 20            // objects that were read and stay
	remembered = 7 * 24 * time.Hour // how far an object was read that is not there for a while
)

// book is which objects were read, and how far. All instances of an input share it. Without
// a path nothing is saved.
type book struct {
	path, kind, bucket string
	owner              string
	log                *slog.Logger
	again              bool // objects are listed again, in this run or the next
	stays              bool // those that were read are among them
	most               int  // how many can be remembered

	opening sync.Mutex // guards the fields below
	users   int
	keeper  *checkpoint.Keeper[pages]
	loaded  bool

	mu      sync.Mutex        // guards the fields below, and all entries
	entries map[string]*entry // by key: what is being read or is not settled
	done    map[uint64]uint64 // the hash of an object's key, and that of its version
	seen    map[uint64]bool   // the hashes of keys in the present listing
	waits   []*entry          // that are settled, and something is to be done about them
}

// pages is the book as it is saved.
type pages struct {
	Open []*entry `json:"open"`
	Done []byte   `json:"done"` // pairs of hashes, 16 bytes each
}

// entry is how far an object was read and settled.
type entry struct {
	Key    string    `json:"key"`
	ETag   string    `json:"etag"`
	Offset int64     `json:"offset"`
	Line   int       `json:"line"`
	Done   bool      `json:"done,omitempty"` // all is settled, but not what is to be done then
	Keep   bool      `json:"keep,omitempty"` // it can't be read, and nothing is to be done about it
	Seen   time.Time `json:"seen"`

	live    bool // it is read by this process, or waits to be settled
	notices []*Notice
}

func (e *entry) place() framing.Place { return framing.Place{Offset: e.Offset, Line: e.Line} }

// mark is a place in an object that counts once all before it is settled.
type mark struct {
	of    *entry
	place framing.Place
	end   bool // that was all of the object
}

func (b *book) hashes(key, etag string) (uint64, uint64) {
	k, v := fnv.New64a(), fnv.New64a()
	k.Write([]byte(b.bucket + "\x00" + key))
	v.Write([]byte(key + "\x00" + etag))
	return k.Sum64(), v.Sum64()
}

// open opens the checkpoint for one more instance.
func (b *book) open() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.users == 0 && b.path != "" {
		k, saved, err := checkpoint.Open(checkpoint.Config[pages]{Path: b.path, Kind: b.kind, Owner: b.owner, Log: b.log,
			State: b.state})
		if err != nil {
			return engine.WithClass(engine.Permanent, err)
		}
		b.keeper = k
		if !b.loaded {
			if err := b.load(saved); err != nil {
				return engine.WithClass(engine.Permanent,
					fmt.Errorf("checkpoint %s: %w", b.path, cmp.Or(k.Close(), err)))
			}
		}
	}
	b.users++
	return nil
}

// load takes over what was saved. What this process knows counts more.
func (b *book) load(saved *pages) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded = true
	if saved == nil {
		return nil
	}
	const remedy = "restore it, or remove it: everything is then read again, as at the first start"
	if len(saved.Done)%16 != 0 || len(saved.Done) > 16*mostDone {
		return fmt.Errorf("is damaged: it has %d bytes about finished objects (%s)", len(saved.Done), remedy)
	}
	for i, e := range saved.Open {
		if e == nil || e.Key == "" || e.Offset < 0 || e.Line < 0 {
			return fmt.Errorf("is damaged at object %d (%s)", i+1, remedy)
		}
		b.entries[e.Key] = e
	}
	for pair := range slices.Chunk(saved.Done, 16) {
		b.done[binary.BigEndian.Uint64(pair)] = binary.BigEndian.Uint64(pair[8:])
	}
	return nil
}

// close saves and closes the checkpoint when the last instance is closed.
func (b *book) close() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.users--; b.users > 0 || b.keeper == nil {
		return nil
	}
	b.keeper.Changed(0)
	err := b.keeper.Close()
	b.keeper = nil
	return err
}

// state is what to save, without what has not been seen for long.
func (b *book) state() pages {
	now := time.Now().UTC().Round(time.Second)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := pages{Open: make([]*entry, 0, len(b.entries)), Done: make([]byte, 0, 16*len(b.done))}
	for key, e := range b.entries {
		if e.live || e.Seen.IsZero() {
			e.Seen = now
		} else if now.Sub(e.Seen) > remembered {
			delete(b.entries, key)
			continue
		}
		copied := *e
		p.Open = append(p.Open, &copied)
	}
	slices.SortFunc(p.Open, func(x, y *entry) int { return cmp.Compare(x.Key, y.Key) })
	for _, key := range slices.Sorted(maps.Keys(b.done)) {
		p.Done = binary.BigEndian.AppendUint64(p.Done, key)
		p.Done = binary.BigEndian.AppendUint64(p.Done, b.done[key])
	}
	return p
}

// changed has the checkpoint saved soon.
func (b *book) changed(messages int) {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.keeper != nil {
		b.keeper.Changed(messages)
	}
}

// begin is the entry of an object that is to be read now, or nil: it was read, or another
// reads it. n, which may be nil, is the notice that named it: it is done when the object is.
func (b *book) begin(key, etag string, n *Notice) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	k, v := b.hashes(key, etag)
	switch {
	case e != nil && e.ETag == etag && (e.live || e.Done):
		if e.Done && !e.live { // an earlier run was interrupted before it could do something about it
			e.live = true
			b.waits = append(b.waits, e)
		}
		if n != nil {
			e.notices = append(e.notices, n)
		}
		return nil
	case e != nil && e.ETag == etag:
	case n == nil && b.done[k] == v:
		return nil
	default:
		if e != nil && e.live {
			e.Keep = true // the object that it was about is not there any more
		}
		e = &entry{Key: key, ETag: etag}
		b.entries[key] = e
	}
	e.live = true
	if n != nil {
		e.notices = append(e.notices, n)
	}
	return e
}

// knows says whether an object that is listed was read, or is being read.
func (b *book) knows(key, etag string) bool {
	k, v := b.hashes(key, etag)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.done[k]; ok {
		b.seen[k] = true
	}
	e := b.entries[key]
	return b.done[k] == v || e != nil && e.live && e.ETag == etag
}

// spoilt says that an object can't be read to its end: when what was read is settled,
// nothing is done about it.
func (b *book) spoilt(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Keep = true
}

// replaced says that an object is another one now, to which its notices belong.
func (b *book) replaced(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Keep, e.notices = true, nil
}

// listed says that a listing was complete: what was not in it is forgotten.
func (b *book) listed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.done, func(key, _ uint64) bool { return !b.seen[key] })
	clear(b.seen)
}

// full says that an object can't be remembered in addition to those that are.
func (b *book) full(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.again || len(b.done)+len(b.entries) < b.most {
		return false
	}
	k, _ := b.hashes(key, "")
	_, open := b.entries[key]
	_, done := b.done[k]
	return !open && !done
}

// settled records marks, in order.
func (b *book) settled(marks []mark) {
	b.mu.Lock()
	for _, m := range marks {
		m.of.Offset, m.of.Line = m.place.Offset, m.place.Line
		if m.end {
			m.of.Done = true
			b.waits = append(b.waits, m.of)
		}
	}
	b.mu.Unlock()
	b.changed(len(marks))
}

// take gives the entries about which something is to be done.
func (b *book) take() (all []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.waits = b.waits, nil
	return all
}

// back keeps entries about which nothing could be done.
func (b *book) back(all []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = append(b.waits, all...)
}

// finish forgets entries that are over, and gives the notices that are done with them.
func (b *book) finish(all []*entry) (done []*Notice) {
	b.mu.Lock()
	for _, e := range all {
		e.live = false
		if b.entries[e.Key] == e {
			delete(b.entries, e.Key)
		}
		if b.again && (b.stays || e.Keep) && e.Key != "" {
			k, v := b.hashes(e.Key, e.ETag)
			b.done[k], b.seen[k] = v, true
		}
		for _, n := range e.notices {
			if n.left--; n.left == 0 {
				done = append(done, n)
			}
		}
		e.notices = nil
	}
	b.mu.Unlock()
	b.changed(0)
	return done
}
