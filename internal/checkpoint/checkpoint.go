// Package checkpoint keeps the state of an input in a file: how far files were read, where
// a cursor is. Start at [Open]; the format on disk is in disk.go.
package checkpoint

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

const (
	pause      = time.Second            // between two saves
	shortPause = 100 * time.Millisecond // between two saves when much has changed
	much       = 10_000                 // messages; after a crash, about as many are read again
)

// Config says which file keeps what.
type Config[T any] struct {
	Path  string
	Kind  string       // of the state, such as "file": another input's checkpoint is refused
	Owner string       // whose state it is, for errors: "input log of pipeline orders"
	Log   *slog.Logger // called when saving fails and when it works again

	// State is what to save. It is called from any goroutine, one call at a time.
	State func() T
}

// Keeper saves a state soon after it has changed. Its methods may be called from
// any goroutine.
type Keeper[T any] struct {
	cfg    Config[T]
	claim  string
	wake   chan struct{} // has room for one: something has changed
	hurry  chan struct{} // has room for one: much has
	stop   chan struct{}
	done   chan struct{} // closed when the loop has ended
	saving sync.Mutex    // guards the fields below
	file   *file
	kept   bool // there is a state in the file

	mu      sync.Mutex // guards the fields below
	changed int        // messages since the last save
	dirty   bool
	failing bool
}

// Open reads the state of a path and keeps it from now on, for as long as the Keeper is
// open alone. saved is nil if there is no file yet; one is created, so that a path that
// can't be written is found now. A file that can't be understood is an error. State is
// first called after Open has returned, by a save.
func Open[T any](cfg Config[T]) (k *Keeper[T], saved *T, err error) {
	claim, err := claimPath(cfg.Path, cfg.Owner)
	if err != nil {
		return nil, nil, err
	}
	f, saved, err := openFile[T](claim, cfg.Path, cfg.Kind)
	if err != nil {
		claims.Delete(claim)
		return nil, nil, err
	}
	k = &Keeper[T]{
		cfg: cfg, claim: claim, file: f, kept: saved != nil,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	go k.loop()
	return k, saved, nil
}

// Changed says that the state has changed by this many messages: it is saved within a
// second.
func (k *Keeper[T]) Changed(messages int) {
	k.mu.Lock()
	k.dirty = true
	k.changed += messages
	hurry := k.changed >= much
	k.mu.Unlock()
	poke(k.wake)
	if hurry {
		poke(k.hurry)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// loop saves at once what changes after a quiet second, and the rest later.
func (k *Keeper[T]) loop() {
	defer close(k.done)
	for k.wait(k.wake, 0) {
		k.report(k.Save())
		if !k.wait(nil, shortPause) || !k.wait(k.hurry, pause-shortPause) {
			return
		}
	}
}

// wait waits for a signal or some time (0: any), and is false at the stop.
func (k *Keeper[T]) wait(signal <-chan struct{}, d time.Duration) bool {
	var up <-chan time.Time
	if d > 0 {
		up = time.After(d)
	}
	select {
	case <-signal:
	case <-up:
	case <-k.stop:
		return false
	}
	return true
}

// unsaved are the checkpoints of this process that can't be saved, by the paths that users
// wrote, with what Trouble says of them.
var unsaved sync.Map

// Trouble says why the checkpoint of a path can't be saved, or is nil: also where none is
// open, and for an empty path.
func Trouble(path string) *engine.Trouble {
	t, ok := unsaved.Load(path)
	if !ok {
		return nil
	}
	copied := t.(engine.Trouble)
	return &copied
}

// report shows and logs when saving begins to fail, and when it works again.
func (k *Keeper[T]) report(err error) {
	k.mu.Lock()
	before := k.failing
	k.failing = err != nil
	k.mu.Unlock()
	if err == nil {
		unsaved.Delete(k.cfg.Path)
	} else {
		t := engine.Trouble{
			Indicator: "checkpoint_unsaved",
			Impact:    "After a crash, messages are read again from the last checkpoint that was saved.",
			Cause:     err.Error(),
			Action:    "Check the disk of the checkpoint, and its folder. flowd retries every second; no restart is needed.",
			Since:     time.Now(),
		}
		if was := Trouble(k.cfg.Path); was != nil {
			t.Since = was.Since
		}
		unsaved.Store(k.cfg.Path, t)
	}
	switch {
	case err != nil && !before:
		k.cfg.Log.Error("checkpoint can't be saved: after a crash, messages are read again from the last one that was saved", "err", err)
	case err == nil && before:
		k.cfg.Log.Info("checkpoint is saved again", "path", k.cfg.Path)
	}
	if err != nil {
		poke(k.wake)
	}
}

// Save saves the state now if it has changed, or is gone: its file was renamed or deleted.
func (k *Keeper[T]) Save() error {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.mu.Lock()
	dirty, changed := k.dirty, k.changed
	k.dirty, k.changed = false, 0
	k.mu.Unlock()
	there := !k.kept || k.file.isThere()
	if !dirty && there {
		return nil
	}
	if !there {
		k.cfg.Log.Warn("checkpoint was renamed, deleted or replaced: it is written again", "path", k.cfg.Path)
	}
	err := save(k.file, envelope[T]{Kind: k.cfg.Kind, Version: version, State: k.cfg.State()})
	if err != nil {
		k.mu.Lock()
		k.dirty = true
		k.changed += changed
		k.mu.Unlock()
		return err
	}
	k.kept = true
	return nil
}

// Close saves what has changed and releases the file. No other method may be called any
// more.
func (k *Keeper[T]) Close() error {
	close(k.stop)
	<-k.done
	err := k.Save()
	unsaved.Delete(k.cfg.Path)
	k.file.close()
	claims.Delete(k.claim)
	return err
}

// claims are the checkpoints that this process has open, by path: whose they are.
var claims sync.Map

// claimPath is the file that a path means, through links, and is the caller's
// until it is deleted from claims.
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
