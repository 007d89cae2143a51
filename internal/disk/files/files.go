// Package files is shared by everything that writes files: it recognizes errors of the system that are outages ([Outage]),
// and whether a path still names the open file ([Held]), and it replaces files in one step ([Replace]).
package files

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// outages are errors of a disk or file system that do not depend on the data: other writes would fail, too, and the
// same write succeeds once somebody has acted.
var outages = []struct {
	err    error
	remedy string
}{
	{syscall.ENOSPC, "free space on the disk"},
	{syscall.EDQUOT, "free space, or raise the quota"},
	{syscall.EROFS, "mount the file system writable"},
	{syscall.EFBIG, "rename the file, or raise the limit on its size"},
	{syscall.EIO, "check the disk: the system's log says more"},
	{syscall.ENXIO, "check the device"},
	{syscall.ENODEV, "check the device"},
	{syscall.ENOTCONN, "mount the file system again"},
	{syscall.ESTALE, "mount the file system again"},
	{syscall.EHOSTDOWN, "check the file server"},
	{syscall.ETIMEDOUT, "check the file server"},
	{syscall.ENOMEM, "free memory"},
	{syscall.EMFILE, "raise the limit on open files, ulimit -n"},
	{syscall.ENFILE, "raise the limit on open files, fs.file-max"},
}

// Outage reports whether an error means that files can't be written at present. The engine then waits, without
// counting an attempt. remedy says what a person can do.
func Outage(err error) (remedy string, yes bool) {
	for _, o := range outages {
		if errors.Is(err, o.err) {
			return o.remedy, true
		}
	}
	return "", false
}

// Held is an open file with its path. The path may come to name another file or none, for example by log rotation.
// Readers of the path then miss later writes.
type Held struct {
	*os.File
	path string
	info fs.FileInfo
}

// Hold holds an open file. On an error it closes the file.
func Hold(f *os.File, path string) (*Held, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Held{File: f, path: path, info: info}, nil
}

// Named reports whether the path still names the file, and returns the current file info.
func (h *Held) Named() (now fs.FileInfo, yes bool) {
	now, err := os.Stat(h.path)
	return now, err == nil && os.SameFile(h.info, now)
}

// SyncDir makes created and renamed files in a folder durable. It does nothing on systems that can't sync folders and
// do that themselves.
func SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// Replace writes a file in one step: after a crash, the path has either its old content or all of data. A file that
// cannot be written in full leaves the old one in place. Calls for the same path must not overlap.
func Replace(path string, data []byte, mode fs.FileMode) (err error) {
	dir, name := filepath.Split(path)
	next := filepath.Join(dir, "."+name+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is left from a crash
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil { // the umask may have taken bits of mode
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return SyncDir(cmp.Or(dir, "."))
}
