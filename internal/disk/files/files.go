// Package files is what components that write files share: which errors of the system are
// outages ([Outage]), and whether a path still names the file that is open ([Held]).
package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// outages are errors of a disk or a file system that have nothing to do with what is written:
// everything else would fail, too, and the same works once somebody has acted.
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

// Outage reports whether an error means that files can't be written at present, whatever is
// written: it is waited for, and counts as no attempt. remedy is what a person can do.
func Outage(err error) (remedy string, yes bool) {
	for _, o := range outages {
		if errors.Is(err, o.err) {
			return o.remedy, true
		}
	}
	return "", false
}

// Held is an open file with the path by which others find it. The path may come to name
// another file or none, as when logs are rotated: what is then written is lost to them.
type Held struct {
	*os.File
	path string
	info fs.FileInfo
}

// Hold holds an open file. After an error it is closed.
func Hold(f *os.File, path string) (*Held, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Held{File: f, path: path, info: info}, nil
}

// Named reports whether the path still names the file, and what it is like now.
func (h *Held) Named() (now fs.FileInfo, yes bool) {
	now, err := os.Stat(h.path)
	return now, err == nil && os.SameFile(h.info, now)
}

// SyncDir makes what was created or renamed in a folder last; where folders can't be synced,
// the system does it.
func SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}
