package checkpoint

import (
	"cmp"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

const (
	pause      = time.Second            // between two saves
	shortPause = 100 * time.Millisecond // between two saves if many messages are unsaved
	much       = 10_000                 // messages; about as many are read again after a crash
	slack      = 1000                   // lines that a log may have beyond twice its entries
)

// Entries are what a [Log] keeps. An entry is a text without line breaks that says what it is about. A later entry
// replaces an earlier one about the same thing. The functions are called from any goroutine, one call at a time.
type Entries struct {
	Path, Kind, Owner string // as in [Config]
	Log               *slog.Logger

	// Load loads an entry of the file. Convert loads the state of a checkpoint that an older flowd wrote as one JSON
	// document. An error means that the file is damaged.
	Load, Convert func(text []byte) error

	// All yields all entries, and Len returns roughly how many. Changed yields the entries changed since its last
	// call. Its undo is called after the iteration if they could not be saved, and marks them as changed again.
	// Entries may change meanwhile.
	All     iter.Seq2[[]byte, error]
	Len     func() int
	Changed func() (entries iter.Seq2[[]byte, error], undo func())
}

// Log keeps entries in a file. It appends changes within a second. When the file has twice as many lines as entries,
// it is rewritten in the background. Methods may be called from any goroutine, but Open and Close only alternately,
// one at a time.
type Log struct {
	cfg Entries

	claim string
	isNew bool
	wake  chan struct{} // room for one: something has changed
	hurry chan struct{} // room for one: much has changed
	stop  chan struct{}
	done  chan struct{} // closed when the loop has ended

	saving    sync.Mutex // guards the fields below
	file      *file      // nil: it was never open
	kept      bool       // the file has entries
	tolerated int        // lines that the file may have, after a failed rewrite

	mu      sync.Mutex // guards the fields below
	changed int        // messages since the last save
	dirty   bool
	failing bool
}

// New returns a closed log.
func New(e Entries) *Log {
	return &Log{cfg: e, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

// Open reads the file, or creates it. If the log was open before in this process, it does not read the entries again:
// what the process knows is newer than the file.
func (l *Log) Open() error {
	claim, err := claimPath(l.cfg.Path, l.cfg.Owner)
	if err != nil {
		return err
	}
	l.saving.Lock()
	defer l.saving.Unlock()
	if err := l.open(claim); err != nil {
		claims.Delete(claim)
		return err
	}
	l.claim, l.stop, l.done = claim, make(chan struct{}), make(chan struct{})
	go l.loop(l.stop, l.done)
	return nil
}

func (l *Log) open(claim string) error {
	f := &file{path: claim, name: l.cfg.Path, kind: l.cfg.Kind}
	load, convert := l.cfg.Load, l.cfg.Convert
	if l.file != nil {
		load, convert = ignore, ignore
	}
	cut, err := f.open(l.file, load, convert)
	if err != nil {
		f.close()
		return err
	}
	if cut > 0 {
		l.cfg.Log.Warn("the last save of the checkpoint was interrupted, and is left out", "path", l.cfg.Path, "bytes", cut)
	}
	l.isNew = l.isNew || l.file == nil && f.created
	l.kept = l.kept || f.lines > 0
	if l.file != nil && l.kept {
		l.Changed(0) // the file may be another one, or lack recent changes
	}
	l.file = f
	return nil
}

// Forget makes the next Open read the entries again if another process has written the file since Close. It reports
// whether that is the case.
func (l *Log) Forget() bool {
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.file == nil {
		return false
	}
	info, err := os.Stat(l.file.path)
	if err != nil || l.file.isLike(info) {
		return false
	}
	l.file, l.kept, l.dirty = nil, false, false
	return true
}

// IsNew reports whether the first Open has created the file.
func (l *Log) IsNew() bool { return l.isNew }

func ignore([]byte) error { return nil }

// Changed says that entries have changed with this many messages. They are saved within a second.
func (l *Log) Changed(messages int) {
	l.mu.Lock()
	l.dirty = true
	l.changed += messages
	hurry := l.changed >= much
	l.mu.Unlock()
	poke(l.wake)
	if hurry {
		poke(l.hurry)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// loop saves a change at once after a quiet second, otherwise later.
func (l *Log) loop(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for wait(stop, l.wake, 0) {
		l.report(l.Save())
		l.compact()
		if !wait(stop, nil, shortPause) || !wait(stop, l.hurry, pause-shortPause) {
			return
		}
	}
}

// wait waits for a signal or some time (0: any time). It returns false when stopped.
func wait(stop, signal <-chan struct{}, d time.Duration) bool {
	var up <-chan time.Time
	if d > 0 {
		up = time.After(d)
	}
	select {
	case <-signal:
	case <-up:
	case <-stop:
		return false
	}
	return true
}

// Save saves changes now. If the file was renamed, deleted or replaced, it is written again.
func (l *Log) Save() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	dirty, changed := l.dirty, l.changed
	l.dirty, l.changed = false, 0
	l.mu.Unlock()
	there := l.file.isThere()
	if !dirty && (there || !l.kept) {
		return nil
	}
	if !there {
		l.cfg.Log.Warn("checkpoint was renamed, deleted or replaced: it is written again", "path", l.cfg.Path)
	}
	entries, undo := l.cfg.Changed()
	text, lines, err := slices.Clone(mark), 0, error(nil)
	for entry, bad := range entries {
		err = cmp.Or(err, bad)
		text = appendLine(text, entry)
		lines++
	}
	switch {
	case err != nil:
		err = l.file.explain(err)
	case !there || l.file.outdated:
		err = l.file.rewrite(l.cfg.All)
	case lines > 0:
		err = l.file.append(text, lines)
	}
	if err != nil {
		undo()
		l.mu.Lock()
		l.dirty = true
		l.changed += changed
		l.mu.Unlock()
		return err
	}
	l.kept = true
	return nil
}

// compact rewrites the file if it has grown too long. Entries may change meanwhile: the next save appends them.
func (l *Log) compact() {
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.file.lines <= max(2*l.cfg.Len()+slack, l.tolerated) {
		return
	}
	l.tolerated = 0
	if err := l.file.rewrite(l.cfg.All); err != nil {
		l.tolerated = 2 * l.file.lines
		l.cfg.Log.Warn("checkpoint can't be compacted, and grows", "err", err)
	}
}

// Close saves changes and releases the file.
func (l *Log) Close() error {
	close(l.stop)
	<-l.done
	err := l.Save()
	unsaved.Delete(l.cfg.Path)
	l.saving.Lock()
	defer l.saving.Unlock()
	if err == nil && !l.file.marked {
		err = l.file.append(mark, 0)
	}
	l.file.close()
	claims.Delete(l.claim)
	return err
}

// unsaved are the checkpoints of this process that can't be saved, by the paths that users wrote.
var unsaved sync.Map

// Trouble returns why the checkpoint at a path can't be saved. It returns nil if it can, if none is open, or if path
// is empty.
func Trouble(path string) *engine.Trouble {
	t, ok := unsaved.Load(path)
	if !ok {
		return nil
	}
	copied := t.(engine.Trouble)
	return &copied
}

// report shows and logs when saving begins to fail, and when it works again.
func (l *Log) report(err error) {
	l.mu.Lock()
	before := l.failing
	l.failing = err != nil
	l.mu.Unlock()
	if err == nil {
		unsaved.Delete(l.cfg.Path)
	} else {
		t := engine.Trouble{
			Indicator: "checkpoint_unsaved",
			Impact:    "After a crash, messages are read again from the last checkpoint that was saved.",
			Cause:     err.Error(),
			Action:    "Check the disk of the checkpoint, and its folder. flowd retries every second; no restart is needed.",
			Since:     time.Now(),
		}
		if was := Trouble(l.cfg.Path); was != nil {
			t.Since = was.Since
		}
		unsaved.Store(l.cfg.Path, t)
	}
	switch {
	case err != nil && !before:
		l.cfg.Log.Error("checkpoint can't be saved: after a crash, messages are read again from the last one that was saved", "err", err)
	case err == nil && before:
		l.cfg.Log.Info("checkpoint is saved again", "path", l.cfg.Path)
	}
	if err != nil {
		poke(l.wake)
	}
}

// claims maps the paths of this process's open checkpoints to their owners.
var claims sync.Map

// claimPath resolves links in a path, and claims the file for the caller until it is deleted from claims.
func claimPath(path, owner string) (string, error) {
	real, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("checkpoint %s: %w", path, err)
	}
	if target, err := filepath.EvalSymlinks(real); err == nil {
		real = target
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(real)); err == nil {
		real = filepath.Join(dir, filepath.Base(real))
	}
	if other, taken := claims.LoadOrStore(real, owner); taken {
		return "", fmt.Errorf("checkpoint %s: is already the checkpoint of %s (give each input its own)", path, other)
	}
	return real, nil
}
