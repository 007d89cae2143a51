// Package frame has the frames that flowd and programs exchange, as docs/programs.md specifies them. Start at [Read] and
// [Writer]. send.go makes the headers that flowd sends, and parse.go reads those of programs.
package frame

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Version is the version of the protocol.
const Version = 1

// MaxHeader is the largest header in bytes.
const MaxHeader = 16 << 20

// MaxMessages is the largest number of messages of one frame, so that a header of a few megabytes can't claim much memory.
const MaxMessages = 100_000

// Frame is a header and a body.
type Frame struct{ Header, Body []byte }

// lengths is the size of the two lengths before a header.
const lengths = 8

// Read reads a frame whose body has at most maxBody bytes. It allocates memory as bytes arrive, not as a length claims. At
// the end of the stream it returns io.EOF, and within a frame io.ErrUnexpectedEOF.
func Read(r *bufio.Reader, maxBody int) (f Frame, err error) {
	var head [lengths]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	header, body := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	switch {
	case header > MaxHeader:
		return f, fmt.Errorf("a header of %d bytes is longer than %d", header, MaxHeader)
	case uint64(body) > uint64(maxBody):
		return f, fmt.Errorf("a body of %d bytes is longer than max_message, %d", body, maxBody)
	}
	if f.Header, err = readN(r, int(header)); err == nil {
		f.Body, err = readN(r, int(body))
	}
	return f, err
}

// step is how much memory a length may claim before its bytes have arrived.
const step = 1 << 20

func readN(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, 0, min(n, step))
	for len(buf) < n {
		at := len(buf)
		if at == cap(buf) {
			more := make([]byte, at, min(n, 2*at))
			copy(more, buf)
			buf = more
		}
		buf = buf[:cap(buf)]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}

// Writer writes frames. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  *bufio.Writer
}

// NewWriter returns a writer of frames.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 64<<10)} }

// Write writes one frame, whose body consists of parts.
func (w *Writer) Write(header []byte, parts ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := 0
	for _, p := range parts {
		body += len(p)
	}
	var head [lengths]byte
	binary.BigEndian.PutUint32(head[:4], uint32(len(header)))
	binary.BigEndian.PutUint32(head[4:], uint32(body))
	_, _ = w.w.Write(head[:]) // a bufio.Writer keeps its first error, which Flush returns
	_, _ = w.w.Write(header)
	for _, p := range parts {
		_, _ = w.w.Write(p)
	}
	return w.w.Flush()
}
