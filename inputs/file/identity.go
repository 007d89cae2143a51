package file

import (
	"errors"
	"hash/fnv"
	"io"
)

// id identifies a file, whatever its name is. It is reused when the file is gone: the head
// shows that.
type id struct{ dev, inode uint64 }

// headSize is how much of a file's beginning its fingerprint covers.
const headSize = 1 << 10

// head is a fingerprint of a file's first bytes, fewer than headSize as long as
// the file is shorter.
type head struct {
	Bytes int    `json:"bytes"`
	Sum   uint64 `json:"sum"`
}

// headOf is the head of what is there, of n bytes at the most.
func headOf(r io.ReaderAt, n int) (head, error) {
	buf := make([]byte, min(n, headSize))
	n, err := r.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return head{}, err
	}
	h := fnv.New64a()
	h.Write(buf[:n])
	return head{n, h.Sum64()}, nil
}

// fits says whether a file still begins as it did.
func (h head) fits(r io.ReaderAt) (bool, error) {
	now, err := headOf(r, h.Bytes)
	return now == h, err
}
