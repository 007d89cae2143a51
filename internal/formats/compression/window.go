package compression

import (
	"bufio"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// BusyError is what a stream gives whose zstd frame claims more memory than others leave
// for now. It can be read again, from its beginning, when Freed is closed.
type BusyError struct{ Freed <-chan struct{} }

func (*BusyError) Error() string { return "other streams use the memory that it needs" }

// What all decoders of the process together may take, in addition to buffers of a few
// megabytes each. No more payloads are decompressed at once than slots has room for, which
// costs them no time: none waits for anything but a processor.
var (
	windows = &budget{left: 2 * maxWindow, freed: make(chan struct{})}
	slots   = make(chan struct{}, max(4, runtime.GOMAXPROCS(0)))
)

// budget is bytes for the windows of zstd streams.
type budget struct {
	mu    sync.Mutex // guards the fields below
	left  int
	freed chan struct{} // closed and replaced when there is more
}

// take takes n bytes; the error says that there are fewer.
func (b *budget) take(n int) *BusyError {
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

// frames passes a zstd stream on and sees, before a decoder does, how large a window each
// frame claims. What is not a frame is left to the decoder to refuse.
type frames struct {
	in    *bufio.Reader
	stop  <-chan struct{} // it waits for the budget until this is closed; nil: it does not wait
	held  int             // of the budget
	part  framePart       // what comes next
	sum   bool            // a checksum ends the frame
	left  int64           // bytes to pass on before that
	ended bool            // it is not zstd any more
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

// next looks at the part that follows. Where the stream ends within it, the decoder finds
// that out.
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
	if head>>1&3 == 1 { // one byte, many times
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
	for n := 5; n <= zstd.HeaderMaxSize; n++ { // no more than is needed: the stream may be a live one
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

// claim gets a frame's window from the budget. A frame that needs a larger window than the
// last one releases that first: a waiting stream holds nothing.
func (f *frames) claim(window uint64) error {
	if window <= uint64(f.held) || window > maxWindow { // which the decoder refuses
		return nil
	}
	f.release()
	for {
		busy := windows.take(int(window))
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

// release returns what the budget gave.
func (f *frames) release() {
	if f.held > 0 {
		windows.put(f.held)
		f.held = 0
	}
}

// cutOff leaves the rest, which is shorter than what should be there, to the decoder.
func (f *frames) cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		f.ended = true
		f.release()
		return nil
	}
	return err
}
