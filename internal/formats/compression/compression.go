// Package compression reads and writes compressed streams and payloads, with limits against hostile data. Start at
// [NewReader] and [NewWriter] for streams, [Decompress] and [Compress] for payloads.
package compression

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Format is a compression format.
type Format string

// The formats. Bzip2 can only be read. Snappy and LZ4 are framed, as their command-line tools write them.
const (
	None   Format = "none"
	Gzip   Format = "gzip"
	Zstd   Format = "zstd"
	Bzip2  Format = "bzip2"
	Snappy Format = "snappy"
	LZ4    Format = "lz4"
)

// magic is the beginning of data in each format.
var magic = map[Format]string{
	Gzip: "\x1f\x8b", Zstd: "\x28\xb5\x2f\xfd", Bzip2: "BZh", Snappy: "\xff\x06\x00\x00sNaPpY", LZ4: "\x04\x22\x4d\x18",
}

// Is reports whether data begins like data in a format.
func Is(f Format, data []byte) bool {
	m := magic[f]
	return m != "" && len(data) >= len(m) && string(data[:len(m)]) == m
}

// HeadSize is how many bytes [Detect] needs.
const HeadSize = 10

// Detect returns the format that data begins with, or None. It checks more than the magic bytes, so that text does
// not match by chance.
func Detect(head []byte) Format {
	switch {
	case Is(Gzip, head) && len(head) > 3 && head[2] == 8 && head[3]&0xe0 == 0: // deflate, and no reserved flag
		return Gzip
	case Is(Bzip2, head) && len(head) >= HeadSize && head[3] >= '1' && head[3] <= '9' &&
		(string(head[4:HeadSize]) == "1AY&SY" || string(head[4:HeadSize]) == "\x17\x72\x45\x38\x50\x90"):
		return Bzip2
	}
	for _, f := range []Format{Zstd, Snappy, LZ4} {
		if Is(f, head) {
			return f
		}
	}
	return None
}

// Undecided reports whether more bytes could show that data with this beginning is compressed.
func Undecided(head []byte) bool {
	if len(head) >= HeadSize || Detect(head) != None {
		return false
	}
	for _, m := range magic {
		if n := min(len(m), len(head)); m[:n] == string(head[:n]) {
			return true
		}
	}
	return false
}

// FromCoding returns the format of an HTTP content coding in lower case, or None for identity. ok is false for
// codings that can't be read.
func FromCoding(name string) (f Format, ok bool) {
	switch name {
	case "", "identity":
		return None, true
	case "gzip", "x-gzip":
		return Gzip, true
	case "zstd":
		return Zstd, true
	}
	return None, false
}

// FromEncoding returns the format in the header Content-Encoding of a stored object, or None if it names none. ok is
// false if it names one that can't be read, or several.
func FromEncoding(header string) (f Format, ok bool) {
	f = None
	for name := range strings.SplitSeq(strings.ToLower(header), ",") {
		if name = strings.TrimSpace(name); name == "aws-chunked" { // only describes the upload
			continue
		}
		one, ok := FromCoding(name)
		switch {
		case !ok || f != None && one != None:
			return None, false
		case one != None:
			f = one
		}
	}
	return f, true
}

// ErrTooLarge is the error of a reader whose decompressed data exceeds its limit.
var ErrTooLarge = errors.New("decompressed data is over the limit")

// FromPath returns the format that a file's extension names, or None.
func FromPath(path string) Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz", ".gzip", ".tgz":
		return Gzip
	case ".zst", ".zstd", ".tzst":
		return Zstd
	case ".bz2", ".bzip2", ".tbz2":
		return Bzip2
	case ".sz":
		return Snappy
	case ".lz4":
		return LZ4
	}
	return None
}

// Limit reads up to max bytes of r. A further byte gives ErrTooLarge.
func Limit(r io.Reader, max int64) io.Reader { return &limited{r, max} }

type limited struct {
	r    io.Reader
	left int64
}

// Read reads one byte beyond the limit to detect data that exceeds it.
func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}

func unknown(f Format) error {
	return fmt.Errorf("unknown compression %q", string(f))
}
