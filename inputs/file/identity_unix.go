//go:build unix

package file

import (
	"io/fs"
	"syscall"
)

// idOf returns a file's device and inode number.
func idOf(_ string, info fs.FileInfo) id {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return id{uint64(s.Dev), s.Ino}
	}
	return id{}
}

// unlinked reports whether an open file has no name any more.
func unlinked(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}
