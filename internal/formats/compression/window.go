package compression

import (
	"bufio"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// BusyError is the error of a stream whose zstd frame needs more memory than is free. The stream can be read again
// from its beginning when Freed is closed.
type BusyError struct{ Freed <-chan struct{} }

func (*BusyError) Error() string { return "other streams use the memory that it needs" }

// Limits of all decoders of the process together, besides buffers of a few megabytes each. slots bounds concurrent
// decompression of payloads. That costs no time, since it only waits for processors.
var (
	windows = &budget{left: 2 * maxWindow, freed: make(chan struct{})}
	slots   = make(chan struct{}, max(4, runtime.GOMAXPROCS(0)))
)

// budget is memory for the windows of zstd streams, in bytes.
type budget struct {
	mu    sync.Mutex // guards the fields below
	left  int
	freed chan struct{} // closed and replaced when memory is freed
}

// reserve reserves n bytes, or returns an error if there are fewer.
func (b *budget) reserve(n int) *BusyError {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return &BusyError{b.freed}
	}
	b.left -= n
	return nil
}

func (b *budget) put(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	close(b.freed)
	b.freed = make(chan struct{})
}

// frames passes on a zstd stream, and checks the window of each frame before the decoder sees it. The decoder reports
// invalid frames.
type frames struct {
	in    *bufio.Reader
	stop  <-chan struct{} // closed: stop waiting for the budget; nil: never wait
	held  int             // bytes of the budget
	part  framePart       // the next part
	sum   bool            // a checksum ends the frame
	left  int64           // bytes to pass on first
	ended bool            // the rest is not zstd
}

// framePart is a part of a frame.
type framePart uint8

const (
	frameHeader framePart = iota
	frameBlock
	frameSum
)

func (f *frames) Read(p []byte) (int, error) {
	for f.left == 0 && !f.ended {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if !f.ended {
		p = p[:min(int64(len(p)), f.left)]
	}
	n, err := f.in.Read(p)
	f.left -= int64(n)
	return n, err
}

// next parses the next part. If the stream ends in it, the decoder reports that.
func (f *frames) next() error {
	switch f.part {
	case frameHeader:
		return f.header()
	case frameSum:
		f.part, f.left = frameHeader, 4
		return nil
	}
	b, err := f.in.Peek(3)
	if err != nil {
		return f.cutOff(err)
	}
	head := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
	f.left = 3 + head>>3
	if head>>1&3 == 1 { // one byte, repeated
		f.left = 4
	}
	if head&1 != 0 { // the last block
		if f.part = frameHeader; f.sum {
			f.part = frameSum
		}
	}
	return nil
}

func (f *frames) header() error {
	for n := 5; n <= zstd.HeaderMaxSize; n++ { // reads no more than needed, since the stream may be live
		b, err := f.in.Peek(n)
		if err != nil {
			return f.cutOff(err)
		}
		var h zstd.Header
		switch err := h.Decode(b); {
		case errors.Is(err, io.ErrUnexpectedEOF):
			continue
		case err != nil:
			f.ended = true
		case h.Skippable:
			f.left = int64(h.HeaderSize) + int64(h.SkippableSize)
		default:
			f.part, f.sum, f.left = frameBlock, h.HasCheckSum, int64(h.HeaderSize)
			if h.SingleSegment {
				h.WindowSize = h.FrameContentSize
			}
			return f.claim(h.WindowSize)
		}
		return nil
	}
	f.ended = true
	return nil
}

// claim reserves the window of a frame. A frame with a larger window first releases the last one: a waiting stream
// holds nothing.
func (f *frames) claim(window uint64) error {
	if window <= uint64(f.held) || window > maxWindow { // the decoder rejects a larger one
		return nil
	}
	f.release()
	for {
		busy := windows.reserve(int(window))
		switch {
		case busy == nil:
			f.held = int(window)
			return nil
		case f.stop == nil:
			return busy
		}
		select {
		case <-busy.Freed:
		case <-f.stop:
			return io.ErrClosedPipe
		}
	}
}

// release returns the reserved bytes to the budget.
func (f *frames) release() {
	if f.held > 0 {
		windows.put(f.held)
		f.held = 0
	}
}

// cutOff leaves an incomplete rest to the decoder.
func (f *frames) cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		f.ended = true
		f.release()
		return nil
	}
	return err
}
