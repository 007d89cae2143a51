package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// Bounds of what is kept for files that are not being read.
const (
	maxOpen    = 256              // files
	maxReaders = 64               // blocks of data; a block that is given up is read again
	turn       = 4 << 20          // bytes read of one file while others wait
	patience   = 5 * time.Second  // for the end of a file that was renamed or deleted, or of a record that has no end mark
	coarse     = time.Second      // the precision of file times
	oldAge     = 10 * time.Minute // after which a file that was renamed is left alone
)

// tail is a file that is followed.
type tail struct {
	name   string // under which it was found
	path   string // under which it is now
	real   string // of linked, through links
	linked string // the path that real is of
	meta   engine.Meta
	of     *entry

	file  *os.File // nil: closed
	src   *growing
	rows  framing.Reader // nil: nothing is read just now
	place framing.Place  // after the last record
	known int64          // how far it was read, including an incomplete record

	size    int64 // when it was last checked; -1: look again
	changed time.Time
	grown   time.Time // when it was last seen to have more

	found  bool   // by the last scan
	gone   bool   // it no longer has a name
	ends   bool   // it will not grow any more
	ended  bool   // and was read to its end
	queued bool   // it is in ready
	began  int64  // where its turn began; -1: it is not its turn
	used   uint64 // number of the turn in which it was last read
}

// renamed reports whether the file has another name now: writing to it has ended, or soon will.
func (t *tail) renamed() bool { return t.gone || t.path != t.name }

// look checks whether a file has more content.
func (f *follower) look(t *tail, info fs.FileInfo) {
	if info.Size() == t.size && info.ModTime().Equal(t.changed) {
		return
	}
	f.saw(t, info)
	err := f.open(t)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, framing.ErrOther) {
		t.size, f.stale = -1, true // the name belongs to another file by now
		return
	}
	same := true
	if err == nil {
		same, err = t.of.Head.fits(t.file)
	}
	var h head
	if err == nil {
		h, err = headOf(t.file, int(min(t.size, headSize)))
	}
	if err != nil {
		t.size = -1
		f.complain(t.path, explain(t.path, err))
		return
	}
	delete(f.told, t.path)
	changed := !same || t.size < t.known
	if changed && !t.found { // no pattern matches it: its name or number belongs to another file now
		t.gone = true
		f.rest(t)
		f.close(t)
		return
	}
	if changed {
		f.restart(t, h)
	}
	f.book.saw(t.of, h, t.size)
	if t.size > t.known {
		t.grown, t.ends, t.ended = f.now(), false, false
		f.enqueue(t)
	}
}

// saw records the size and the times of a file. Times are coarse: a file that has just changed may change again without a visible
// difference.
func (f *follower) saw(t *tail, info fs.FileInfo) {
	t.size, t.changed = info.Size(), info.ModTime()
	if f.now().Sub(t.changed) < coarse {
		t.changed = time.Time{}
	}
}

// restart reads a file from its beginning, because it was truncated or rewritten.
func (f *follower) restart(t *tail, h head) {
	f.log.Info("file was truncated: it is read from its beginning", "path", t.path, "read", t.place.Offset)
	t.of = newEntry(t.name, t.of.Key(), h)
	t.place, t.known, t.rows, t.began = framing.Place{}, 0, nil, -1
	f.begins(t.of, t.place)
}

// begins saves a new file in the checkpoint, or the new part of an old one, before any of its messages is read: after a crash, the
// file may have another name.
func (f *follower) begins(e *entry, at framing.Place) {
	f.book.begin(e, at)
	f.unsaved = true
}

// fill adds records of a file that is ready.
func (f *follower) fill(ctx context.Context, t *tail, b *engine.Batch) {
	if err := f.open(t); err != nil {
		f.rest(t)
		t.size, f.stale = -1, true
		return
	}
	if t.rows == nil {
		if err := f.begin(ctx, t); errors.Is(err, framing.ErrOther) {
			f.rest(t)
			h, _ := headOf(t.file, headSize)
			f.restart(t, h)
			f.enqueue(t)
			return
		} else if err != nil {
			f.broken(ctx, t, err)
			return
		}
	}
	t.src.ends = t.ends
	f.use(t)
	if t.began < 0 {
		t.began = t.src.at
	}
	var err error
	f.marks, err = fill(t.rows, b, t.meta, t.of, f.acks.Next(), f.marks)
	t.place, t.known = t.rows.Place(), max(t.known, t.src.at)
	switch {
	case errors.Is(err, framing.ErrLater):
		f.rest(t)
		if info, err := t.file.Stat(); err == nil {
			f.look(t, info)
		}
	case errors.Is(err, io.EOF):
		f.rest(t)
		t.rows, t.ended = nil, true
	case err != nil:
		f.broken(ctx, t, err)
	case t.src.at-t.began >= turn:
		f.rest(t)
		f.enqueue(t)
	}
}

// begin continues where reading the file stopped.
func (f *follower) begin(ctx context.Context, t *tail) (err error) {
	t.src = &growing{file: t.file}
	t.rows, err = f.cfg.Continue(ctx, compression.None, t.src, seekIn(t.src), t.place)
	return err
}

// broken gives up reading a file until it is checked again.
func (f *follower) broken(ctx context.Context, t *tail, err error) {
	t.rows = nil
	if ctx.Err() != nil {
		return
	}
	f.complain(t.path, explain(t.path, err))
	f.rest(t)
	t.size = -1
	if !t.gone {
		f.close(t)
	}
}

// enqueue marks a file as ready to read.
func (f *follower) enqueue(t *tail) {
	if !t.queued {
		t.queued, t.began = true, -1
		f.ready = append(f.ready, t)
	}
}

// rest marks a file as read to its end for now.
func (f *follower) rest(t *tail) {
	t.queued = false
	f.ready = slices.DeleteFunc(f.ready, func(o *tail) bool { return o == t })
}

// open opens a file, if its name still belongs to it.
func (f *follower) open(t *tail) error {
	if t.file != nil {
		return nil
	}
	if t.gone {
		return fs.ErrNotExist
	}
	file, err := os.Open(t.path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && idOf(t.path, info) != t.of.Key() {
		err = framing.ErrOther
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.keep(t, file)
	return nil
}

func (f *follower) keep(t *tail, file *os.File) {
	t.file = file
	f.files = append(f.files, t)
	f.use(t)
}

// use bounds what is kept open for idle files.
func (f *follower) use(t *tail) {
	f.uses++
	t.used = f.uses
	for len(f.files) > maxOpen {
		f.close(f.idlest(t, func(*tail) bool { return true }))
	}
	if !f.cfg.Resumes() { // starting over is expensive
		return
	}
	readers := 0
	for _, o := range f.files {
		if o.rows != nil {
			readers++
		}
	}
	if readers > maxReaders {
		f.idlest(t, func(o *tail) bool { return o.rows != nil }).rows = nil
	}
}

// idlest returns the least recently used open file, except t. A file that can't be opened again is the last choice.
func (f *follower) idlest(t *tail, fits func(*tail) bool) (idlest *tail) {
	for _, o := range f.files {
		if o == t || !fits(o) {
			continue
		}
		if idlest == nil || idlest.gone && !o.gone || idlest.gone == o.gone && o.used < idlest.used {
			idlest = o
		}
	}
	return idlest
}

// close closes a file. It is opened again when it has more.
func (f *follower) close(t *tail) {
	if t.file == nil {
		return
	}
	_ = t.file.Close() // it was only read
	t.file, t.src, t.rows = nil, nil, nil
	f.files = slices.DeleteFunc(f.files, func(o *tail) bool { return o == t })
}
