//go:build unix

package service

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether this user or root owns a file.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Uid == 0 || int(st.Uid) == os.Geteuid()
}
