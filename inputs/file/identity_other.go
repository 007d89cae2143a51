//go:build !unix

package file

import (
	"hash/fnv"
	"io/fs"
)

// idOf uses the name, because files have no other identity here: a renamed file counts as another file.
func idOf(path string, _ fs.FileInfo) id {
	h := fnv.New64a()
	h.Write([]byte(path))
	return id{inode: h.Sum64()}
}

func unlinked(fs.FileInfo) bool { return false }
