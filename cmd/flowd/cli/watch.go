package cli

import (
	"context"
	"crypto/sha256"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	watchQuiet = 200 * time.Millisecond // how long files must stay unchanged before they are read
	watchEvery = 5 * time.Second        // between checks without a notice: some file systems send none
)

// watch reloads when the content of the files changes, until ctx ends. It watches their directories, since editors
// and Kubernetes replace files and links.
func (p *process) watch(ctx context.Context) {
	notices, errs := make(<-chan fsnotify.Event), make(<-chan error)
	add := func(string) error { return nil }
	if w, err := fsnotify.NewWatcher(); err != nil {
		p.log.Warn("files can't be watched, so they are checked periodically", "err", err, "every", watchEvery)
	} else {
		defer w.Close()
		notices, errs, add = w.Events, w.Errors, w.Add
	}
	watched := map[string]bool{}
	p.watchNew(watched, add)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := p.fingerprints()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			p.log.Warn("error while watching files", "err", err)
		case <-notices:
			settle(ctx, notices)
		case <-tick.C:
		}
		if now := p.fingerprints(); !unchanged(now, seen) {
			if err := p.Reload(); err != nil {
				p.log.Error("reload", "err", err)
			}
			p.watchNew(watched, add)
			seen = p.alsoSeen(now)
		}
	}
}

// followSecrets reloads when a renewed secret has another value, until ctx ends. A reload that fails is repeated after the
// next renewal.
func (p *process) followSecrets(ctx context.Context) {
	if p.options.Managers == nil {
		return
	}
	for changed := p.options.Managers.Changed(); ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			p.log.Info("a secret has changed")
			if err := p.Reload(); err != nil {
				p.log.Error("reload", "err", err)
				p.options.Managers.Again()
			}
		}
	}
}

// alsoSeen returns the fingerprints from before a reload, plus those of files that were not included then.
func (p *process) alsoSeen(seen map[string]fingerprint) map[string]fingerprint {
	all := p.fingerprints()
	if seen == nil || all == nil {
		return seen
	}
	for path := range all {
		if before, ok := seen[path]; ok { // it may have changed since it was read
			all[path] = before
		}
	}
	return all
}

// unchanged reports whether files are as they were. nil means that one could not be read.
func unchanged(a, b map[string]fingerprint) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }

// watchNew starts watching the directories that are not watched yet.
func (p *process) watchNew(watched map[string]bool, add func(dir string) error) {
	for _, dir := range p.directories() {
		if watched[dir] {
			continue
		}
		if err := add(dir); err != nil {
			p.log.Warn("directory can't be watched", "err", err)
			continue
		}
		watched[dir] = true
	}
}

// settle waits until no more notices arrive for a while.
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

// directories returns the directories whose entries decide what is read.
func (p *process) directories() (all []string) {
	p.mu.Lock()
	files := slices.Concat(p.files, p.parts)
	p.mu.Unlock()
	for _, f := range files {
		dir := f
		if info, err := os.Stat(f); err != nil || !info.IsDir() {
			dir = filepath.Dir(f)
		}
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// fingerprint is a hash of the content of a file, or of the files of a directory.
type fingerprint [sha256.Size]byte

// fingerprints returns the fingerprints of everything that is watched. It returns nil while a file can't be read, as
// in the middle of a swap.
func (p *process) fingerprints() map[string]fingerprint {
	all := map[string]fingerprint{}
	for _, f := range p.watches() {
		h := sha256.New()
		if err := addTo(h, f); err != nil {
			return nil
		}
		all[f] = fingerprint(h.Sum(nil))
	}
	return all
}

// watches returns the files and directories that were given, the files that these include, and current matches of
// their patterns.
func (p *process) watches() []string {
	p.mu.Lock()
	parts := p.parts
	p.mu.Unlock()
	all := slices.Clone(p.files)
	for _, part := range parts {
		found, err := filepath.Glob(part)
		if err != nil || len(found) == 0 && !strings.ContainsAny(part, "*?[") {
			found = []string{part} // even though it does not exist
		}
		all = append(all, found...)
	}
	return all
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
