package source

import (
	"encoding"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
)

// Entry is what a [Book] records about one thing that is read, such as a file or an object. Its text has no line breaks.
type Entry[K comparable] interface {
	Key() K
	encoding.TextAppender
}

// Config configures a [Book].
type Config[K comparable, E Entry[K]] struct {
	Path  string // of the checkpoint; "": nothing is saved
	Kind  string // of the input, such as "file": the checkpoint of another kind is refused
	About string // what the input reads, such as a bucket, if nothing is saved: inputs with another text share no entries
	Log   *slog.Logger

	// Remember is how long an entry is kept that complete listings no longer see; 0: it is forgotten at once.
	Remember time.Duration

	// Parse reads the text of an entry. Convert reads the state of a checkpoint before version 3, a JSON document.
	Parse   func(text []byte) (E, error)
	Convert func(state []byte) ([]E, error)
}

// Book records what an input has read, by key, and how far. All instances of the input share it, and so does the input that
// replaces it at a reload. If it has a path, it also survives the process: changes are saved within a second.
//
// A Book is a mutex. The caller must hold it for Get, IsHeld, Put, Hold, Release, Delete, All and Len, and to change what
// entries point to. The other methods lock it themselves.
//
// An instance holds the entries that it works on. A complete [Listing] forgets entries that it has not seen, unless they are
// held. The holds of an input end when a reload replaces it.
type Book[K comparable, E Entry[K]] struct {
	*memory[K, E]
	run uint32 // the number of this input among those that have used the memory; 0: it is not open yet
}

// memory is the part of a book that inputs share.
type memory[K comparable, E Entry[K]] struct {
	sync.Mutex // guards the fields up to opening
	cfg        Config[K, E]
	entries    map[K]slot[E]
	changed    map[K]E // entries that were changed or deleted since the last save
	listings   uint32  // how many have begun
	runs       uint32  // how many inputs have used it
	log        *checkpoint.Log

	opening sync.Mutex // guards the fields below
	users   int
	loaded  bool
}

type slot[E any] struct {
	entry   E
	listing uint32 // the latest listing that has seen it
	holder  uint32 // a run; 0: none
	gone    int64  // when a complete listing first did not see it, in Unix seconds; 0: the last one has seen it
}

// New returns the book of an input, which is not open yet. Equal inputs that share env.Shared share their entries.
func New[K comparable, E Entry[K]](env engine.Env, cfg Config[K, E]) *Book[K, E] {
	type key struct{ pipeline, input, kind, path, about string }
	return &Book[K, E]{memory: engine.Common(env.Shared, key{env.Pipeline, env.Name, cfg.Kind, cfg.Path, cfg.About},
		func() *memory[K, E] {
			m := &memory[K, E]{cfg: cfg, entries: map[K]slot[E]{}, changed: map[K]E{}}
			if cfg.Path != "" {
				m.log = checkpoint.New(checkpoint.Entries{Path: cfg.Path, Kind: cfg.Kind, Owner: checkpoint.Owner(env), Log: cfg.Log,
					Load: m.load, Convert: m.convert, All: m.all, Changed: m.changes, Len: m.count})
			}
			return m
		})}
}

// Open opens the book for one more instance. The first one reads the checkpoint, unless this process has read it before.
// Errors are permanent.
func (b *Book[K, E]) Open() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.Lock()
	defer b.Unlock()
	if b.users == 0 && b.log != nil {
		if b.run == 0 && b.log.Forget() { // an input with another name has used the checkpoint since
			clear(b.entries)
			clear(b.changed)
			b.loaded = false
		}
		if err := b.log.Open(); err != nil {
			if !b.loaded {
				clear(b.entries)
			}
			return engine.WithClass(engine.Permanent, err)
		}
	}
	b.loaded = true
	if b.users++; b.run == 0 {
		b.runs++
		b.run = b.runs
	}
	return nil
}

// Close closes the book for one instance. The last one saves and closes the checkpoint.
func (b *Book[K, E]) Close() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.users == 0 {
		return nil
	}
	if b.users--; b.users > 0 || b.log == nil {
		return nil
	}
	return b.log.Close()
}

// Save saves changes now.
func (b *Book[K, E]) Save() error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.users == 0 || b.log == nil {
		return nil
	}
	return b.log.Save()
}

// IsSaved says whether there is a checkpoint.
func (b *Book[K, E]) IsSaved() bool { return b.log != nil }

// IsFresh says whether nothing is known from before: the input is the first in this process, and found no checkpoint.
func (b *Book[K, E]) IsFresh() bool { return b.run <= 1 && (b.log == nil || b.log.IsNew()) }

// Trouble returns why the checkpoint can't be saved, or nil.
func (b *Book[K, E]) Trouble() *engine.Trouble { return checkpoint.Trouble(b.cfg.Path) }

// Get returns the entry of a key, and whether there is one.
func (b *Book[K, E]) Get(key K) (entry E, ok bool) {
	s, ok := b.entries[key]
	return s.entry, ok
}

// Put adds an entry, or records that it has changed. messages is how many messages the change is about.
func (b *Book[K, E]) Put(entry E, messages int) {
	key := entry.Key()
	s := b.entries[key]
	s.entry, s.listing, s.gone = entry, b.listings, 0
	b.entries[key] = s
	b.note(entry, messages)
}

// Delete forgets an entry.
func (b *Book[K, E]) Delete(key K) {
	if s, ok := b.entries[key]; ok {
		delete(b.entries, key)
		b.note(s.entry, 0)
	}
}

// note marks an entry for the next save, as changed or deleted.
func (m *memory[K, E]) note(entry E, messages int) {
	if m.log != nil {
		m.changed[entry.Key()] = entry
		m.log.Changed(messages)
	}
}

// Hold holds the entry of a key, if there is one, until Release, or until another input has the book.
func (b *Book[K, E]) Hold(key K) { b.hold(key, b.run) }

// Release ends a hold.
func (b *Book[K, E]) Release(key K) { b.hold(key, 0) }

func (b *Book[K, E]) hold(key K, by uint32) {
	if s, ok := b.entries[key]; ok {
		s.holder = by
		b.entries[key] = s
	}
}

// IsHeld says whether an instance of the input that has the book holds an entry.
func (b *Book[K, E]) IsHeld(key K) bool { return b.holds(b.entries[key]) }

func (m *memory[K, E]) holds(s slot[E]) bool { return s.holder != 0 && s.holder == m.runs }

// All yields all entries, in no order.
func (b *Book[K, E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		for _, s := range b.entries {
			if !yield(s.entry) {
				return
			}
		}
	}
}

// Len is how many entries there are.
func (b *Book[K, E]) Len() int { return len(b.entries) }

// Listing is one pass over everything that a source has, such as all objects of a bucket. A listing that is not completed
// forgets nothing.
type Listing[K comparable, E Entry[K]] struct {
	book   *Book[K, E]
	number uint32
	covers func(E) bool
}

// List begins a listing of the entries for which covers is true; nil: of all. Entries that are Put meanwhile count as seen.
func (b *Book[K, E]) List(covers func(E) bool) *Listing[K, E] {
	b.Lock()
	defer b.Unlock()
	b.listings++
	return &Listing[K, E]{b, b.listings, covers}
}

// See records that the source still has the thing with a key. The caller holds the book.
func (l *Listing[K, E]) See(key K) {
	s, ok := l.book.entries[key]
	if !ok {
		return
	}
	if s.gone != 0 {
		s.gone = 0
		l.book.note(s.entry, 0)
	}
	s.listing = l.number
	l.book.entries[key] = s
}

// Complete ends a listing that has seen everything. Entries that it has not seen are forgotten when Config.Remember has
// passed.
func (l *Listing[K, E]) Complete(now time.Time) {
	b := l.book
	b.Lock()
	defer b.Unlock()
	looked := 0
	for key := range b.entries {
		if looked++; looked%1000 == 0 { // let other goroutines use the book
			b.Unlock()
			b.Lock()
		}
		s, ok := b.entries[key]
		if !ok {
			continue
		}
		switch {
		case s.listing >= l.number || b.holds(s) || l.covers != nil && !l.covers(s.entry):
		case b.cfg.Remember == 0 || s.gone != 0 && now.Sub(time.Unix(s.gone, 0)) > b.cfg.Remember:
			b.Delete(key)
		case s.gone == 0:
			s.gone = now.Unix()
			b.entries[key] = s
			b.note(s.entry, 0)
		}
	}
}
