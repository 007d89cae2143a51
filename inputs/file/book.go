package file

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/checkpoint"
	"github.com/flowd-io/flowd/internal/framing"
)

// remembered is how long a file that is not seen any more is remembered: it may
// be on a disk that is not there for a while.
const remembered = 7 * 24 * time.Hour

// book is how far each file was read, as the checkpoint says. All instances of
// an input share it. Without a path nothing is saved.
type book struct {
	path  string
	owner string
	log   *slog.Logger

	opening sync.Mutex // guards the fields below
	users   int
	keeper  *checkpoint.Keeper[pages]
	loaded  bool
	fresh   bool // there was no checkpoint: these files were never read

	mu      sync.Mutex // guards the fields below, and all entries
	entries map[id]*entry
	looked  map[int]bool // instances that have seen all their files
	all     bool         // all have: what was not seen may be forgotten
}

// pages is the book as it is saved.
type pages struct {
	Files []*entry `json:"files"`
}

// entry is how far a file was read and settled. One that is replaced, under the same name
// or number, has a new entry.
type entry struct {
	Path   string    `json:"path"` // the name under which it was first found
	Dev    uint64    `json:"dev"`
	Inode  uint64    `json:"inode"`
	Head   head      `json:"head"`
	Offset int64     `json:"offset"`
	Line   int       `json:"line"`
	Size   int64     `json:"size"` // when it was last checked
	Done   bool      `json:"done,omitempty"`
	Seen   time.Time `json:"seen"`

	live bool // it is there
}

func (e *entry) id() id { return id{e.Dev, e.Inode} }

func newEntry(path string, i id, h head) *entry {
	return &entry{Path: path, Dev: i.dev, Inode: i.inode, Head: h, live: true}
}

// takesBack is what an input with such a book takes back.
func (b *book) takesBack() engine.TakesBack {
	if b.path == "" {
		return engine.TakesNothing
	}
	return engine.TakesPosition
}

// open opens the checkpoint for one more instance. What this process knows
// counts more than what it has saved.
func (b *book) open() error {
	if b.path == "" {
		return nil
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.users == 0 {
		k, saved, err := checkpoint.Open(checkpoint.Config[pages]{Path: b.path, Kind: "file", Owner: b.owner,
			Log: b.log, State: b.state})
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

func (b *book) load(saved *pages) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded, b.fresh = true, saved == nil
	if b.fresh {
		return nil
	}
	for i, e := range saved.Files {
		if e == nil || e.Offset < 0 || e.Line < 0 || e.Head.Bytes < 0 || e.Head.Bytes > headSize {
			return fmt.Errorf("is damaged at file %d (restore it, or remove it: everything is then read again, as at the first start)", i+1)
		}
		b.entries[e.id()] = e
	}
	return nil
}

// close saves and closes the checkpoint when the last instance is closed.
func (b *book) close() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.users == 0 {
		return nil
	}
	if b.users--; b.users > 0 {
		return nil
	}
	b.keeper.Changed(0) // when files were last seen
	err := b.keeper.Close()
	b.keeper = nil
	return err
}

// save saves now.
func (b *book) save() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.keeper == nil {
		return nil
	}
	b.keeper.Changed(0)
	return b.keeper.Save()
}

// state is what to save, without what is gone for long.
func (b *book) state() pages {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	p := pages{Files: make([]*entry, 0, len(b.entries))}
	for key, e := range b.entries {
		if e.live {
			e.Seen = now.Round(time.Second)
		} else if b.all && now.Sub(e.Seen) > remembered {
			delete(b.entries, key)
			continue
		}
		copied := *e
		p.Files = append(p.Files, &copied)
	}
	slices.SortFunc(p.Files, func(x, y *entry) int {
		return cmp.Or(natural(x.Path, y.Path), cmp.Compare(x.Inode, y.Inode))
	})
	return p
}

// find is the entry of a file that is open as r, and where to read on, or nil:
// never read. other says that there is one, of another file that had the same
// number.
func (b *book) find(i id, path string, r io.ReaderAt) (found *entry, at framing.Place, other bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[i]
	if e == nil {
		// After a restart of the machine a device may have another number.
		for key, old := range b.entries {
			if key.inode == i.inode && old.Path == path && !old.live {
				e = old
			}
		}
	}
	if e == nil {
		return nil, at, false, nil
	}
	same, err := e.Head.fits(r)
	if err != nil || !same {
		return nil, at, true, err
	}
	if key := e.id(); key != i {
		delete(b.entries, key)
		e.Dev = i.dev
		b.entries[i] = e
	}
	e.live = true
	return e, framing.Place{Offset: e.Offset, Line: e.Line}, false, nil
}

// isFresh says that there was no checkpoint when the input was first opened.
func (b *book) isFresh() bool {
	b.opening.Lock()
	defer b.opening.Unlock()
	return b.fresh || b.path == ""
}

// begin records a file that is read from a position on. A file that had its number before
// can't be read again, whatever becomes of its messages.
func (b *book) begin(e *entry, at framing.Place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Offset, e.Line = at.Offset, at.Line
	b.entries[e.id()] = e
}

// remove forgets a file that no longer exists.
func (b *book) remove(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[e.id()] == e {
		delete(b.entries, e.id())
	}
}

// missing are the entries of files that have not been seen yet.
func (b *book) missing() (all []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if !e.live && !e.Done {
			all = append(all, e)
		}
	}
	return all
}

// saw records what a file looks like. One that has grown is no longer done, even if none of
// the new part is ever settled.
func (b *book) saw(e *entry, h head, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Done = e.Done && e.Size == size
	e.Head, e.Size, e.live = h, size, true
}

// left says that a file is no longer checked, and how far it was read: if nothing is saved,
// that is remembered here.
func (b *book) left(e *entry, at framing.Place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.live = false
	if b.path == "" {
		e.Offset, e.Line, e.Seen = at.Offset, at.Line, time.Now()
		b.entries[e.id()] = e
		maps.DeleteFunc(b.entries, func(_ id, e *entry) bool { return !e.live && time.Since(e.Seen) > remembered })
	}
}

// sawAll says that an instance has seen all its existing files.
func (b *book) sawAll(index, instances int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.looked == nil {
		b.looked = map[int]bool{}
	}
	b.looked[index] = true
	b.all = len(b.looked) == instances
}

// mark is a place in a file that counts once all before it is settled.
type mark struct {
	of    *entry
	place framing.Place
	end   bool // no message's: that was all of the file
}

// settled records marks, in order. Those of files that no longer exist change nothing that
// is saved.
func (b *book) settled(marks []mark) {
	b.mu.Lock()
	for _, m := range marks {
		m.of.Offset, m.of.Line, m.of.Done = m.place.Offset, m.place.Line, m.end
	}
	b.mu.Unlock()
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.keeper != nil {
		b.keeper.Changed(len(marks))
	}
}
