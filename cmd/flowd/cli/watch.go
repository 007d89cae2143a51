package cli

import (
	"context"
	"crypto/sha256"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	watchQuiet = 200 * time.Millisecond // that files must be quiet before they are read
	watchEvery = 5 * time.Second        // a check without a notice: some file systems send none
)

// watch reloads when the content of the files changes, until ctx ends. It watches
// their directories, since editors and Kubernetes put new files, or links, in the
// place of old ones.
func (p *process) watch(ctx context.Context) {
	notices, errs := make(<-chan fsnotify.Event), make(<-chan error)
	if w, err := fsnotify.NewWatcher(); err != nil {
		p.log.Warn("files are only checked periodically", "err", err, "every", watchEvery)
	} else {
		defer w.Close()
		for _, dir := range p.directories() {
			if err := w.Add(dir); err != nil {
				p.log.Warn("directory can't be watched", "err", err)
			}
		}
		notices, errs = w.Events, w.Errors
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := p.fingerprint()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			p.log.Warn("watching files", "err", err)
		case <-notices:
			settle(ctx, notices)
		case <-tick.C:
		}
		if now := p.fingerprint(); now != seen {
			seen = now
			if err := p.Reload(); err != nil {
				p.log.Error("reload", "err", err)
			}
		}
	}
}

// settle waits until there are no more notices for a while.
func settle(ctx context.Context, notices <-chan fsnotify.Event) {
	quiet := time.NewTimer(watchQuiet)
	defer quiet.Stop()
	enough := time.After(5 * watchQuiet) // other files of the directory may never be quiet
	for {
		select {
		case <-notices:
			quiet.Reset(watchQuiet)
		case <-quiet.C:
			return
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

// directories are those whose entries decide what is read.
func (p *process) directories() (all []string) {
	for _, f := range p.files {
		dir := f
		if info, err := os.Stat(f); err == nil && !info.IsDir() {
			dir = filepath.Dir(f)
		}
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// fingerprint is a hash of the content of all files; "" while one can't be read,
// as in the middle of a swap.
func (p *process) fingerprint() string {
	h := sha256.New()
	for _, f := range p.files {
		if err := addTo(h, f); err != nil {
			return ""
		}
	}
	return string(h.Sum(nil))
}

func addTo(h hash.Hash, path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return addFile(h, path)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(e.Name())) {
			continue
		}
		if err := addFile(h, filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func addFile(h hash.Hash, path string) error {
	text, err := os.ReadFile(path)
	h.Write(text)
	h.Write([]byte(path))
	return err
}
