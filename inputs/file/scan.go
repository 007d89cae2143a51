package file

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// scan finds new, renamed and deleted files, and checks all files for more content. The rest of an old file is read before new
// files.
func (f *follower) scan(ctx context.Context) {
	began := f.now()
	first := f.scanned.IsZero()
	f.due, f.stale = false, false
	for _, t := range f.tails {
		t.found = false
	}
	listing := f.book.List(func(e *entry) bool { return f.shares(e.Inode) }) // it holds the files that exist
	fresh, whole := f.find(ctx)
	if first {
		fresh = append(fresh, f.recall(ctx)...)
	}
	if whole {
		for _, t := range f.tails {
			if !t.found {
				f.lost(t)
			}
		}
		if f.listed.IsZero() || began.Sub(f.listed) >= time.Minute {
			f.listed = began
			listing.Complete(began)
		}
	}
	for _, t := range fresh {
		if t.size > t.known {
			f.enqueue(t)
		}
	}
	f.finish()
	f.listen()
	f.scanned = f.now()
	f.took = f.scanned.Sub(began)
}

// find checks all files that the patterns match, and returns the new ones. whole is false if some could not be seen.
func (f *follower) find(ctx context.Context) (fresh []*tail, whole bool) {
	whole = true
	for _, pattern := range f.cfg.Path {
		paths, err := match(pattern)
		if err != nil && !errors.Is(err, errNone) {
			whole = false
			f.complain(pattern, err)
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				whole = false
				f.complain(path, explain(path, err))
				continue
			case isCheckpoint(path, f.cfg.Checkpoint) || excludes(f.cfg.Exclude, path) || !f.follows(path, info):
				continue
			}
			t := f.tails[idOf(path, info)]
			switch {
			case t == nil:
				if t = f.discover(ctx, path, info); t == nil {
					continue
				}
				fresh = append(fresh, t)
			case !t.found:
				t.path, t.gone, t.found = path, false, true
				f.look(t, info)
			}
			t.found = true
		}
	}
	return fresh, whole
}

// follows reports whether this instance follows a file.
func (f *follower) follows(path string, info fs.FileInfo) bool {
	switch {
	case info.IsDir():
		return false
	case !info.Mode().IsRegular():
		f.complain(path, errors.New("is not a regular file"))
		return false
	case f.cfg.Format(path) != compression.None:
		f.skips(path)
		return false
	}
	return f.shares(idOf(path, info).inode)
}

// shares reports whether a file belongs to this instance.
func (f *follower) shares(inode uint64) bool { return int(inode%uint64(f.instances)) == f.index }

// skips reports whether a file is compressed. Such files are not followed: they are rotated copies of others.
func (f *follower) skips(path string) {
	if f.told["compressed"] == "" {
		f.told["compressed"] = path
		f.log.Info("compressed files are not followed", "path", path)
	}
}

// discover begins to follow a file.
func (f *follower) discover(ctx context.Context, path string, info fs.FileInfo) *tail {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		info, err = file.Stat() // the name may belong to another file by now
	}
	if err != nil {
		f.complain(path, explain(path, err))
		return nil
	}
	key := idOf(path, info)
	if t := f.tails[key]; t != nil || !f.follows(path, info) {
		file.Close()
		return nil
	}
	if f.cfg.Auto() && compression.Detect(firstOf(file)) != compression.None {
		f.skips(path)
		file.Close()
		return nil
	}
	delete(f.told, path)
	t := &tail{name: path, path: path, grown: f.now()}
	f.saw(t, info)
	if err = f.place(ctx, t, key, file); err != nil {
		file.Close()
		f.complain(path, explain(path, err))
		return nil
	}
	t.known = t.place.Offset
	t.meta = engine.Meta{}.With("path", t.name).Own().WithIndex("line")
	f.tails[key] = t
	f.keep(t, file)
	return t
}

// place finds where reading a file continues.
func (f *follower) place(ctx context.Context, t *tail, key id, file *os.File) error {
	e, at, other, err := f.book.find(key, t.path, file)
	if err != nil {
		return err
	}
	h, err := headOf(file, int(min(t.size, headSize)))
	if err != nil {
		return err
	}
	switch {
	case e != nil && at.Offset <= t.size:
		t.of, t.name, t.place = e, e.Path, at
		f.book.saw(e, h, t.size)
		return nil
	case e != nil:
		f.log.Info("file is shorter than what was read of it: it is read from its beginning", "path", t.path)
	case other:
		f.log.Info("file is not the one that was read under its inode number: it is read from its beginning", "path",
			t.path)
	}
	t.of = newEntry(t.path, key, h)
	if f.cfg.Start == "end" && f.scanned.IsZero() && f.book.IsFresh() {
		if t.place, err = f.lastRecord(ctx, file, t.size); err != nil {
			return err
		}
	}
	f.begins(t.of, t.place)
	return nil
}

// lastRecord returns the position after the last complete record.
func (f *follower) lastRecord(ctx context.Context, file *os.File, size int64) (framing.Place, error) {
	if !f.cfg.Resumes() {
		rows := f.cfg.Reader(&growing{file: file})
		for n := 0; ; n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				return framing.Place{}, ctx.Err()
			}
			if _, err := rows.Next(); errors.Is(err, framing.ErrLater) {
				return rows.Place(), nil
			} else if err != nil {
				return framing.Place{}, err
			}
		}
	}
	at := framing.Place{Offset: size, Line: 1}
	if f.cfg.Framing.Delimiter != nil || f.cfg.Framing.Length != nil {
		return at, nil
	}
	rest := make([]byte, min(size, int64(f.cfg.MaxRecord)))
	if _, err := file.ReadAt(rest, size-int64(len(rest))); err != nil {
		return at, err
	}
	if i := bytes.LastIndexByte(rest, '\n'); i >= 0 || int64(len(rest)) == size {
		at.Offset -= int64(len(rest) - i - 1)
	}
	return at, nil
}

// recall finds files of the checkpoint that were renamed since.
func (f *follower) recall(ctx context.Context) (fresh []*tail) {
	for _, e := range f.book.missing() {
		if !f.shares(e.Inode) || !matches(f.cfg.Path, e.Path) || excludes(f.cfg.Exclude, e.Path) {
			continue
		}
		path, info := search(filepath.Dir(e.Path), e)
		if path == "" {
			if e.Size > e.Offset {
				f.log.Warn("file was deleted: the part that was not read is lost", "path", e.Path, "read", e.Offset, "size",
					e.Size)
			}
			continue
		}
		if t := f.discover(ctx, path, info); t != nil {
			fresh = append(fresh, t)
		}
	}
	return fresh
}

// search finds a file in a folder by its identity.
func search(dir string, of *entry) (path string, info fs.FileInfo) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && idOf(path, info) == of.Key() &&
			of.fits(path) {
			return path, info
		}
	}
	return "", nil
}

// fits reports whether a file begins like the file of an entry.
func (e *entry) fits(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	same, err := e.Head.fits(file)
	return err == nil && same
}

// lost finds what became of a file that no pattern matches any more.
func (f *follower) lost(t *tail) {
	if t.gone {
		f.lookAgain(t)
		return
	}
	if t.file != nil {
		if info, err := t.file.Stat(); err == nil && unlinked(info) {
			t.gone = true
			f.look(t, info)
			return
		}
	}
	if info, err := os.Stat(t.path); err == nil && idOf(t.path, info) == t.of.Key() {
		f.look(t, info)
		return
	}
	if path, info := search(filepath.Dir(t.path), t.of); path != "" {
		t.path = path
		f.look(t, info)
		return
	}
	t.gone = true
	f.lookAgain(t)
	if t.file == nil && t.size > t.known {
		f.log.Warn("file was deleted: the part that was not read is lost", "path", t.path, "read", t.place.Offset, "size",
			t.size)
	}
}

// lookAgain checks an open file.
func (f *follower) lookAgain(t *tail) {
	if t.file == nil {
		return
	}
	if info, err := t.file.Stat(); err == nil {
		f.look(t, info)
	}
}

// finish ends renamed and deleted files once nothing has arrived for a while. It also ends a last record that only the next record
// would end.
func (f *follower) finish() {
	for key, t := range f.tails {
		quiet := f.now().Sub(t.grown)
		if t.queued || quiet < patience {
			continue
		}
		switch {
		case t.file == nil && t.gone:
			f.forget(key, t)
		case !t.ended && t.known == t.place.Offset:
			t.ended = t.renamed()
		case !t.ended && (t.renamed() || f.endsLine(t)) && f.open(t) == nil:
			t.ends = true
			f.enqueue(t)
		case t.ended && t.gone || t.ended && !t.found && quiet >= oldAge:
			f.forget(key, t)
		}
	}
}

// endsLine reports whether the last record seems to be complete, although only the next record would end it.
func (f *follower) endsLine(t *tail) bool {
	if f.cfg.Framing.Start == nil || f.open(t) != nil {
		return false
	}
	var last [1]byte
	_, err := t.file.ReadAt(last[:], t.known-1)
	return err == nil && last[0] == '\n'
}

// forget stops following a file.
func (f *follower) forget(key id, t *tail) {
	if t.file != nil {
		if info, err := t.file.Stat(); err == nil && unlinked(info) {
			f.book.remove(t.of)
			t.of = nil
		}
	}
	if t.of != nil {
		f.book.left(t.of, t.place)
		f.book.release(t.of)
	}
	f.close(t)
	delete(f.tails, key)
}

// listen subscribes to events of all folders that matter.
func (f *follower) listen() {
	clear(f.names)
	dirs := map[string]bool{}
	for _, t := range f.tails {
		if t.gone {
			continue // the name may belong to another file
		}
		if t.linked != t.path {
			t.real, _ = filepath.EvalSymlinks(t.path)
			t.linked = t.path
		}
		f.names[filepath.Clean(t.path)], f.names[t.real] = t, t
		dirs[filepath.Dir(t.path)], dirs[filepath.Dir(t.real)] = true, true
	}
	if f.watch == nil {
		return
	}
	for _, p := range f.cfg.Path {
		for _, one := range alternatives(p) {
			for _, dir := range folders(one) {
				dirs[dir] = true
			}
		}
	}
	for dir := range dirs {
		if f.watched[dir] {
			continue
		}
		f.watched[dir] = true
		if err := f.watch.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.complain("events of "+dir, err)
		}
	}
	for dir := range f.watched {
		if !dirs[dir] {
			delete(f.watched, dir)
			_ = f.watch.Remove(dir) // it may no longer exist
		}
	}
}

// folders returns the folders in which files of a pattern may appear: the last existing folder before the first wildcard, and all
// folders that the wildcards match.
func folders(pattern string) (all []string) {
	parts := strings.Split(filepath.ToSlash(filepath.Clean(pattern)), "/")
	parts = parts[:len(parts)-1]
	for i := range parts {
		prefix := strings.Join(parts[:i+1], "/") + "/"
		if strings.Contains(prefix, "**") {
			root, hidden := strings.Join(parts[:i], "/")+"/.", namesHidden(strings.Join(parts[i:], "/"))
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				switch {
				case err != nil || !d.IsDir():
				case path != root && !hidden && strings.HasPrefix(d.Name(), "."):
					return fs.SkipDir
				default:
					all = append(all, filepath.Clean(path))
				}
				return nil
			})
			return all
		}
		found, _ := globDirs(prefix)
		if len(found) == 0 {
			break
		}
		if !strings.ContainsAny(prefix, `*?[`) {
			all = all[:0]
		}
		for _, dir := range found {
			all = append(all, filepath.Clean(dir))
		}
	}
	if len(all) == 0 {
		all = append(all, ".")
	}
	return all
}
