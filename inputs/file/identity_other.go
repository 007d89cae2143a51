//go:build !unix

package file

import (
	"hash/fnv"
	"io/fs"
)

// idOf goes by the name where files have no other identity: a file that gets
// another name is another file.
func idOf(path string, _ fs.FileInfo) id {
	h := fnv.New64a()
	h.Write([]byte(path))
	return id{inode: h.Sum64()}
}

func unlinked(fs.FileInfo) bool { return false }
