package file

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// remembered is how long a file that has disappeared is remembered: its disk may be unmounted for a while.
const remembered = 7 * 24 * time.Hour

// book records how far each file was read and settled. Entries of files that are followed, or being read, are held.
type book struct{ *source.Book[id, *entry] }

// entry is how far a file was read and settled. A file that replaces another, under the same name or inode number, has an entry
// of its own.
type entry struct {
	Path   string `json:"path"` // the name under which it was first found
	Dev    uint64 `json:"dev"`
	Inode  uint64 `json:"inode"`
	Head   head   `json:"head"`
	Offset int64  `json:"offset"`
	Line   int    `json:"line"`
	Size   int64  `json:"size"` // when it was last checked
	Done   bool   `json:"done,omitempty"`
}

// Key identifies the file.
func (e *entry) Key() id { return id{e.Dev, e.Inode} }

// AppendText appends the entry as JSON.
func (e *entry) AppendText(b []byte) ([]byte, error) {
	text, err := json.Marshal(e)
	return append(b, text...), err
}

func newEntry(path string, i id, h head) *entry {
	return &entry{Path: path, Dev: i.dev, Inode: i.inode, Head: h}
}

func newBook(env engine.Env, checkpoint string, log *slog.Logger) book {
	return book{source.New(env, source.Config[id, *entry]{Path: checkpoint, Kind: "file", Log: log, Remember: remembered,
		Parse: func(text []byte) (*entry, error) {
			e := &entry{}
			if err := json.Unmarshal(text, e); err != nil {
				return nil, err
			}
			return e, e.check()
		},
		Convert: func(state []byte) (entries []*entry, err error) {
			var old struct{ Files []*entry }
			if err := json.Unmarshal(state, &old); err != nil {
				return nil, err
			}
			for i, e := range old.Files {
				if err := e.check(); err != nil {
					return nil, fmt.Errorf("file %d: %w", i+1, err)
				}
			}
			return old.Files, nil
		}})}
}

func (e *entry) check() error {
	if e == nil || e.Offset < 0 || e.Line < 0 || e.Head.Bytes < 0 || e.Head.Bytes > headSize {
		return fmt.Errorf("it is not a place in a file")
	}
	return nil
}

// acks follows which messages of an instance are settled.
func (b book) acks() *source.Acks[mark] {
	return &source.Acks[mark]{Settled: b.settled, IsSettled: func(m mark) bool { return m.end }}
}

// acker returns a, or nil if nothing is saved.
func (b book) acker(a *source.Acks[mark]) engine.Acker {
	if !b.IsSaved() {
		return nil
	}
	return a
}

// takesBack returns what an input with this book takes back.
func (b book) takesBack() engine.TakesBack {
	if !b.IsSaved() {
		return engine.TakesNothing
	}
	return engine.TakesPosition
}

// find returns the entry of a file, which is open as r, and where to continue. It returns nil if the file was never read. other
// says that an entry exists, but is about an earlier file with the same inode number.
func (b book) find(i id, path string, r io.ReaderAt) (found *entry, at framing.Place, other bool, err error) {
	b.Lock()
	defer b.Unlock()
	e, ok := b.Get(i)
	if !ok {
		// After a restart of the machine a device may have another number.
		for old := range b.All() {
			if old.Inode == i.inode && old.Path == path && !b.IsHeld(old.Key()) {
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
	if !ok {
		b.Delete(e.Key())
		moved := *e
		e, moved.Dev = &moved, i.dev
		b.Put(e, 0)
	}
	b.Hold(i)
	return e, framing.Place{Offset: e.Offset, Line: e.Line}, false, nil
}

// begin records that a file is read from a position on. It replaces the entry of an earlier file with the same inode number, which
// can no longer be read.
func (b book) begin(e *entry, at framing.Place) {
	b.Lock()
	defer b.Unlock()
	e.Offset, e.Line = at.Offset, at.Line
	b.Put(e, 0)
	b.Hold(e.Key())
}

// update saves an entry that has changed, unless its file no longer exists.
func (b book) update(e *entry, messages int) {
	if now, _ := b.Get(e.Key()); now == e {
		b.Put(e, messages)
	}
}

// remove forgets a file that no longer exists.
func (b book) remove(e *entry) {
	b.Lock()
	defer b.Unlock()
	if now, _ := b.Get(e.Key()); now == e {
		b.Delete(e.Key())
	}
}

// missing returns the entries of files that have not been seen yet.
func (b book) missing() (all []*entry) {
	b.Lock()
	defer b.Unlock()
	for e := range b.All() {
		if !e.Done && !b.IsHeld(e.Key()) {
			all = append(all, e)
		}
	}
	return all
}

// saw records the size and the times of a file. A file that has grown is no longer done, even if none of the new part is ever settled.
func (b book) saw(e *entry, h head, size int64) {
	b.Lock()
	defer b.Unlock()
	if e.Head == h && e.Size == size {
		return
	}
	e.Done = e.Done && e.Size == size
	e.Head, e.Size = h, size
	b.update(e, 0)
}

// left records how far a file was read when reading it ends, unless settled messages record that.
func (b book) left(e *entry, at framing.Place) {
	b.Lock()
	defer b.Unlock()
	if !b.IsSaved() {
		e.Offset, e.Line = at.Offset, at.Line
		b.update(e, 0)
	}
}

// release ends the hold on a file's entry: the file is no longer checked.
func (b book) release(e *entry) {
	b.Lock()
	defer b.Unlock()
	b.Release(e.Key())
}

// mark is a place in a file. It counts as soon as all messages before it are settled.
type mark struct {
	of    *entry
	place framing.Place
	end   bool // of the file, and not of a message
}

// settled records marks, in order.
func (b book) settled(marks []mark) {
	b.Lock()
	defer b.Unlock()
	n := 0
	for i, m := range marks {
		m.of.Offset, m.of.Line, m.of.Done = m.place.Offset, m.place.Line, m.end
		if n++; i+1 == len(marks) || marks[i+1].of != m.of {
			b.update(m.of, n)
			n = 0
		}
	}
}
