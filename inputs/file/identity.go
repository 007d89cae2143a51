package file

import (
	"errors"
	"hash/fnv"
	"io"
)

// id identifies a file regardless of its name. The system reuses it for a new file after the file was deleted; head tells them
// apart.
type id struct{ dev, inode uint64 }

// headSize is how much of a file's beginning its fingerprint covers.
const headSize = 1 << 10

// head is a fingerprint of a file's first bytes: headSize, or all if the file is shorter.
type head struct {
	Bytes int    `json:"bytes"`
	Sum   uint64 `json:"sum"`
}

// headOf returns the head of a file, of at most n bytes.
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

// fits reports whether a file still begins as it did.
func (h head) fits(r io.ReaderAt) (bool, error) {
	now, err := headOf(r, h.Bytes)
	return now == h, err
}
