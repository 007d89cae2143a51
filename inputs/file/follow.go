package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/fsnotify/fsnotify"
)

// How often folders are checked. Events announce changes, but not every file system sends events.
const (
	poll = time.Second
	gap  = 100 * time.Millisecond // between two scans, whatever happens
	lazy = 20                     // a scan takes at most this fraction of the time
)

// follower reads files and waits for more. scan.go finds the files, and tail.go follows one of them. A goroutine keeps track of
// names even while nothing is read: otherwise renamed files would be lost.
type follower struct {
	cfg              Config
	log              *slog.Logger
	index, instances int // a file is read by one of the instances
	book             book
	acks             *source.Acks[mark]

	watch     *fsnotify.Watcher // nil: without events
	events    <-chan fsnotify.Event
	failures  <-chan error
	every     time.Duration // between two looks at the folders
	now       func() time.Time
	listener  func() (*fsnotify.Watcher, error)
	unwatched bool          // without the goroutine, in tests
	wake      chan struct{} // room for one: there is something to read
	stop      context.CancelFunc
	stopped   sync.WaitGroup

	progress atomic.Pointer[[]engine.Position] // as it was returned last

	mu    sync.Mutex // guards the fields below
	marks []mark     // of the current Read
	tails map[id]*tail
	names map[string]*tail // by all names that events may have
	ready []*tail          // those with something to read, in turn
	files []*tail          // those that are open
	uses  uint64

	due, stale bool // scan: it is time; names have changed
	unsaved    bool // the checkpoint lacks a file
	watched    map[string]bool
	scanned    time.Time // when the last scan ended
	listed     time.Time // when a scan was last counted as a listing
	took       time.Duration
	told       map[string]string // complaints in the log, by path
}

var (
	_ engine.Opener     = (*follower)(nil)
	_ engine.Closer     = (*follower)(nil)
	_ engine.Positioned = (*follower)(nil)
	_ engine.Traited    = (*follower)(nil)
	_ engine.Troubled   = (*follower)(nil)
)

func newFollower(c Config, log *slog.Logger, b book, index, instances int) *follower {
	return &follower{
		cfg: c, log: log, index: index, instances: instances, book: b, acks: b.acks(),
		every: poll, now: time.Now, listener: fsnotify.NewWatcher, wake: make(chan struct{}, 1),
		tails: map[id]*tail{}, names: map[string]*tail{}, told: map[string]string{},
	}
}

// Traits reports a position if there is a checkpoint.
func (f *follower) Traits() engine.Traits { return engine.Traits{TakesBack: f.book.takesBack()} }

// Open finds the existing files. It fails only for paths that can never be followed.
func (f *follower) Open(ctx context.Context) error {
	if err := f.check(); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	if err := f.book.Open(); err != nil {
		return err
	}
	w, err := f.listener()
	if err != nil {
		f.log.Warn("no file events: files are checked once a second", "err", err)
	} else {
		f.watch, f.watched, f.events, f.failures = w, map[string]bool{}, w.Events, w.Errors
	}
	if err := f.first(ctx); err != nil {
		return errors.Join(err, f.Close(ctx))
	}
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	if !f.unwatched {
		f.stopped.Go(func() { f.attend(ctx) })
	}
	return nil
}

func (f *follower) first(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.scanned.IsZero()
	f.scan(ctx)
	if len(f.tails) == 0 && first && f.index == 0 {
		f.log.Info("there is no file to follow yet: waiting for one", "path", []string(f.cfg.Path))
	}
	f.unsaved = false
	return errors.Join(ctx.Err(), f.book.Save())
}

// check reports paths that exist and can't be followed.
func (f *follower) check() error {
	var errs []error
	for _, pattern := range f.cfg.Path {
		found, err := match(pattern)
		if err != nil && !errors.Is(err, errNone) {
			errs = append(errs, err)
		}
		if len(found) != 1 || found[0] != pattern {
			continue
		}
		switch info, err := os.Stat(pattern); {
		case err != nil:
		case info.IsDir():
			errs = append(errs, fmt.Errorf("%s: is a directory (write %s for the files in it)", pattern,
				filepath.Join(pattern, "*")))
		case !info.Mode().IsRegular():
			errs = append(errs, fmt.Errorf("%s: is not a regular file (leave follow out)", pattern))
		}
	}
	return errors.Join(errs...)
}

// Read waits until a file has records and adds those.
func (f *follower) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	for room := b.Room(); ctx.Err() == nil; {
		f.read(ctx, b)
		if b.Room() < room {
			return f.book.acker(f.acks), nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
	}
	return f.book.acker(f.acks), ctx.Err()
}

// read adds available records.
func (f *follower) read(ctx context.Context, b *engine.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.ready) > 0 && b.Room() > 0 && ctx.Err() == nil {
		f.fill(ctx, f.ready[0], b)
	}
	f.takeDown()
}

// takeDown records where the messages of this Read end.
func (f *follower) takeDown() {
	if f.book.IsSaved() {
		f.acks.Read(f.marks)
	}
	clear(f.marks)
	f.marks = f.marks[:0]
	f.save()
}

// save saves the checkpoint if it lacks a file.
func (f *follower) save() {
	if !f.unsaved {
		return
	}
	f.unsaved = false
	if err := f.book.Save(); err != nil {
		f.log.Error("checkpoint can't be saved", "err", err)
	}
}

// attend follows changes of files and names until ctx ends.
func (f *follower) attend(ctx context.Context) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	for ctx.Err() == nil {
		if f.keepUp(ctx) {
			soon.Reset(gap)
		}
		select {
		case <-ctx.Done():
		case e := <-f.events:
			f.event(e)
		case err := <-f.failures:
			f.failed(err)
		case <-tick.C:
			f.mu.Lock()
			f.due = true
			f.mu.Unlock()
		case <-soon.C:
		}
	}
}

// keepUp scans if a scan is due, and reports whether one is due soon.
func (f *follower) keepUp(ctx context.Context) (soon bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := f.now().Sub(f.scanned)
	if since >= min(lazy*f.took, time.Minute) && (f.due || f.stale && since >= gap) {
		f.scan(ctx)
		f.save()
	}
	if len(f.ready) > 0 {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	return f.stale
}

// event checks the file that an event names.
func (f *follower) event(e fsnotify.Event) {
	name := filepath.Clean(e.Name)
	if isCheckpoint(name, f.cfg.Checkpoint) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Op.Has(fsnotify.Create) || e.Op.Has(fsnotify.Remove) || e.Op.Has(fsnotify.Rename) {
		f.stale = true
		delete(f.watched, name) // the watch of a folder ends with the folder
	}
	t := f.names[name]
	if t == nil || !e.Op.Has(fsnotify.Write) {
		return
	}
	var info fs.FileInfo
	var err error
	if t.file != nil {
		info, err = t.file.Stat()
	} else if info, err = os.Stat(t.path); err == nil && idOf(t.path, info) != t.of.Key() {
		err = framing.ErrOther
	}
	if err != nil {
		f.stale = true
		return
	}
	f.look(t, info)
}

// failed is called when events were lost. Everything is checked then.
func (f *follower) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		f.complain("events", err)
	}
}

// complain logs what is wrong with a file, once until it changes.
func (f *follower) complain(path string, err error) {
	if f.told[path] == err.Error() {
		return
	}
	if len(f.told) > 1000 {
		clear(f.told)
	}
	f.told[path] = err.Error()
	f.log.Warn("file can't be followed now", "path", path, "err", err)
}

// Close closes all files. When it is opened again, the input continues where it stopped.
func (f *follower) Close(context.Context) error {
	if f.stop != nil {
		f.stop()
		f.stopped.Wait()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.files) > 0 {
		f.close(f.files[0])
	}
	var err error
	if f.watch != nil {
		err = f.watch.Close()
		f.watch, f.events, f.failures = nil, nil, nil
	}
	for _, t := range f.tails {
		f.book.left(t.of, t.place)
	}
	return errors.Join(err, f.book.Close())
}

// Progress returns how far each file was read and settled, in bytes. Without a checkpoint, what was read counts as settled. Files
// with the same name, such as deleted ones that are still open, are one position.
func (f *follower) Progress() engine.Progress {
	if !f.mu.TryLock() { // a scan of a slow disk takes long
		if last := f.progress.Load(); last != nil {
			return engine.Progress{Bytes: true, Positions: slices.Clone(*last)}
		}
		return engine.Progress{Bytes: true}
	}
	defer f.mu.Unlock()
	f.book.Lock()
	defer f.book.Unlock()
	of := map[string]engine.Position{}
	for _, t := range f.tails {
		at := of[t.path]
		at.Name = t.path
		settled := t.place.Offset
		if f.book.IsSaved() {
			settled = t.of.Offset
		}
		at.Settled, at.Read, at.End = at.Settled+settled, at.Read+t.known, at.End+max(t.size, t.known)
		of[t.path] = at
	}
	all := slices.SortedFunc(maps.Values(of), func(a, b engine.Position) int { return strings.Compare(a.Name, b.Name) })
	f.progress.Store(&all)
	return engine.Progress{Bytes: true, Positions: slices.Clone(all)}
}

// Trouble reports that the checkpoint can't be saved.
func (f *follower) Trouble() *engine.Trouble { return f.book.Trouble() }
