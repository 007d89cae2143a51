package checkpoint

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/disk/flock"
)

// file is a checkpoint on disk. While it is open, it is locked against other processes.
type file struct {
	path, name, kind string      // name is the path as the user wrote it
	handle           *os.File    // nil: closed
	size             int64       // bytes of complete saves
	lines            int         // number of entries
	created          bool        // it did not exist
	torn             bool        // a failed save may have left something after size
	marked           bool        // nothing was appended after the last mark
	outdated         bool        // the next save must rewrite it: it has an old version, or lacks something
	info             fs.FileInfo // file info at the last close, or nil
}

// Temporary returns the path of the file in which the next checkpoint is written.
func Temporary(path string) string { return path + ".tmp" }

// open opens and locks the file, or creates it without entries. was is the file that this process had before, or nil.
// If it is unchanged, it is not read again. cut is how many bytes of an interrupted save were removed. The caller
// must close the file even after an error.
func (f *file) open(was *file, load, convert func([]byte) error) (cut int64, err error) {
	info, err := f.lockExisting()
	if err != nil {
		return 0, f.explain(err)
	}
	if f.handle == nil {
		err = f.rewrite(func(func([]byte, error) bool) {})
		f.created, f.outdated = true, was != nil
		return 0, err
	}
	if was != nil && was.isLike(info) {
		f.size, f.lines, f.torn, f.outdated, f.marked = was.size, was.lines, was.torn, was.outdated, true
		return 0, nil
	}
	f.size, f.lines, err = read(f.handle, f.kind, load, convert)
	if err != nil {
		return 0, fmt.Errorf("checkpoint %s: %w", f.name, err)
	}
	f.outdated = was != nil || f.size == 0
	f.marked = true
	if cut = info.Size() - f.size; f.size == 0 || cut == 0 {
		return 0, nil
	}
	return cut, f.explain(f.handle.Truncate(f.size))
}

// lockExisting opens and locks the file, if it exists.
func (f *file) lockExisting() (fs.FileInfo, error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, err
	}
	for {
		info, err := os.Stat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, errors.New("is not a regular file (name one)")
		}
		f.handle, err = os.OpenFile(f.path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err = flock.Lock(f.handle); err == nil {
			info, err = f.handle.Stat()
		}
		if err != nil {
			return nil, err
		}
		// Its owner may have replaced it just before the lock.
		if now, err := os.Stat(f.path); err == nil && os.SameFile(info, now) {
			return info, nil
		}
		f.handle.Close()
		f.handle = nil
	}
}

// rewrite replaces this file by a new one with these entries. If it is interrupted, one of the two is there,
// complete.
func (f *file) rewrite(entries iter.Seq2[[]byte, error]) error {
	if err := f.yields(); err != nil {
		return f.explain(err)
	}
	next := &file{path: Temporary(f.path), kind: f.kind}
	err := next.create(entries)
	if err == nil && !flock.Works { // such systems can't rename open files
		next.close()
		f.close()
		f.outdated = true
	}
	if err == nil {
		err = os.Rename(next.path, f.path)
	}
	if err == nil && !flock.Works {
		next.handle, err = os.OpenFile(f.path, os.O_RDWR, 0)
	}
	if err != nil {
		next.close()
		_ = os.Remove(next.path) // the next rewrite removes it
		return f.explain(err)
	}
	f.close()
	f.handle, f.size, f.lines, f.torn, f.outdated, f.marked = next.handle, next.size, next.lines, false, false, true
	return f.explain(files.SyncDir(filepath.Dir(f.path)))
}

// create makes a file with a header, entries and a mark, locked and synced.
func (f *file) create(entries iter.Seq2[[]byte, error]) error {
	err := os.MkdirAll(filepath.Dir(f.path), 0o700) // the folder may have been moved or deleted
	if err != nil {
		return err
	}
	// An existing file is left from a crash, or is a link that someone has put there.
	if err = os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.handle, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if _, err = flock.Lock(f.handle); err != nil {
		return err
	}
	w := bufio.NewWriterSize(f.handle, 64<<10)
	_, err = w.Write(sealed(header{Kind: f.kind, Version: version}))
	var line []byte
	for entry, bad := range entries {
		if err = cmp.Or(err, bad); err != nil {
			return err
		}
		line = appendLine(line[:0], entry)
		_, err = w.Write(line)
		f.lines++
	}
	if err == nil {
		_, err = w.Write(mark)
	}
	if err = cmp.Or(err, w.Flush()); err != nil {
		return err
	}
	if f.size, err = f.handle.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	return f.handle.Sync()
}

// append appends a mark and the lines of entries, and syncs the file.
func (f *file) append(text []byte, lines int) error {
	var err error
	if f.torn {
		err = f.handle.Truncate(f.size)
	}
	if err == nil {
		f.torn = true
		_, err = f.handle.WriteAt(text, f.size)
	}
	if err == nil {
		err = f.handle.Sync()
		f.outdated = err != nil // after a failed Sync, another one does not write what the system has dropped
	}
	if err != nil {
		return f.explain(err)
	}
	f.torn = false
	f.size += int64(len(text))
	f.lines += lines
	f.marked = lines == 0
	return nil
}

// isThere reports whether the path still names the file.
func (f *file) isThere() bool {
	if !flock.Works {
		return true // such systems can't rename open files
	}
	mine, err := f.handle.Stat()
	now, gone := os.Stat(f.path)
	return err == nil && gone == nil && os.SameFile(mine, now)
}

// yields returns an error if another process now has its checkpoint at the path, after the file had been renamed or
// deleted.
func (f *file) yields() error {
	if f.isThere() {
		return nil
	}
	other, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer other.Close()
	_, err = flock.Lock(other)
	return err
}

// isLike reports whether the file has not changed since it was closed.
func (f *file) isLike(info fs.FileInfo) bool {
	return f.info != nil && os.SameFile(f.info, info) && f.info.Size() == info.Size()
}

// close records the file info, and closes the file.
func (f *file) close() {
	if f.handle != nil {
		f.info, _ = f.handle.Stat()
		f.handle.Close()
		f.handle = nil
	}
}

// explain adds the checkpoint's name and, if possible, a remedy.
func (f *file) explain(err error) error {
	if err == nil {
		return nil
	}
	cause := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		cause = p.Err
	} else if l, ok := errors.AsType[*os.LinkError](err); ok {
		cause = l.Err
	}
	switch {
	case errors.Is(err, flock.ErrHeld):
		cause = fmt.Errorf("%w (stop the other flowd, or give each its own checkpoint)", cause)
	case errors.Is(err, fs.ErrPermission):
		cause = fmt.Errorf("%w (give the user that runs flowd permission to read and write it, and its folder)", cause)
	case errors.Is(err, syscall.ENOTDIR):
		cause = fmt.Errorf("%w (a part of the path is a file)", cause)
	}
	if remedy, yes := files.Outage(cause); yes {
		cause = fmt.Errorf("%w (%s)", cause, remedy)
	}
	return fmt.Errorf("checkpoint %s: %w", f.name, cause)
}
