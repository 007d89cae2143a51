package compression

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxWindow bounds the memory that a zstd frame may claim: the largest window that the zstd tool uses without --long.
const maxWindow = 128 << 20

// NewReader decompresses r. It does not read before the first Read, starts no goroutine, and names the format in
// errors. Close does not close r, but releases this stream's share of the memory for windows. If other streams use
// that memory, Read waits until stop is closed or, if stop is nil, returns a [BusyError].
func NewReader(f Format, r io.Reader, stop <-chan struct{}) (io.ReadCloser, error) {
	if f != Zstd {
		return newReader(f, r, 0)
	}
	in := &frames{in: bufio.NewReaderSize(r, 16<<10), stop: stop}
	d, err := newReader(f, in, maxWindow)
	if err != nil {
		return nil, err
	}
	return &Stream{d, in}, nil
}

// Stream is a decompressed zstd stream.
type Stream struct {
	io.ReadCloser
	in *frames
}

// Close releases the memory.
func (s *Stream) Close() error {
	s.in.release()
	return s.ReadCloser.Close()
}

func newReader(f Format, r io.Reader, window uint64) (io.ReadCloser, error) {
	switch f {
	case None, "":
		return io.NopCloser(r), nil
	case Gzip:
		var g gzip.Reader
		in := bufio.NewReader(nil)
		return &reader{format: f, open: func() (io.Reader, error) { in.Reset(r); return &g, g.Reset(in) }}, nil
	case Zstd:
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return &reader{format: f, close: d.Close, open: func() (io.Reader, error) { return d, d.Reset(r) }}, nil
	case Bzip2:
		return &reader{format: f, open: func() (io.Reader, error) { return bzip2.NewReader(r), nil }}, nil
	case Snappy:
		s := snappy.NewReader(nil)
		return &reader{format: f, open: func() (io.Reader, error) { s.Reset(r); return s, nil }}, nil
	case LZ4:
		l := lz4.NewReader(nil)
		return &reader{format: f, open: func() (io.Reader, error) { l.Reset(r); return l, nil }}, nil
	}
	return nil, unknown(f)
}

// reader opens the stream at the first Read, since some formats read their header when they are opened. open may be
// called again once the source has more data.
type reader struct {
	format Format
	open   func() (io.Reader, error)
	close  func()
	r      io.Reader // nil until the first Read
}

func (r *reader) Read(p []byte) (int, error) {
	if r.r == nil {
		in, err := r.open()
		if err != nil {
			return 0, r.wrap(err)
		}
		r.r = in
	}
	n, err := r.r.Read(p)
	return n, r.wrap(err)
}

// wrap names the format in an error. Empty input is empty data in every format, as for `gzip -dc`.
func (r *reader) wrap(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s data ends too early: %w", r.format, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s data: %w", r.format, err)
}

func (r *reader) Close() error {
	if r.close != nil {
		r.close()
	}
	return nil
}

// Levels returns the highest level of a format, or 0 if it has no levels. The lowest is 1.
func Levels(f Format) int {
	switch f {
	case Gzip:
		return 9
	case Zstd:
		return 22
	}
	return 0
}

// NewWriter compresses to w at a level. 0 is the format's default, and formats without levels ignore it. Close
// completes the stream. w stays open.
func NewWriter(f Format, w io.Writer, level int) (io.WriteCloser, error) {
	switch f {
	case None, "":
		return nopCloser{w}, nil
	case Gzip:
		if level == 0 {
			level = gzip.DefaultCompression
		}
		return gzip.NewWriterLevel(w, level)
	case Zstd:
		opts := []zstd.EOption{zstd.WithEncoderConcurrency(1)}
		if level != 0 {
			opts = append(opts, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
		}
		return zstd.NewWriter(w, opts...)
	case Snappy:
		return snappy.NewBufferedWriter(w), nil
	case LZ4:
		return lz4.NewWriter(w), nil
	case Bzip2:
		return nil, errors.New("bzip2 can only be read, not written (use gzip or zstd)")
	}
	return nil, unknown(f)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
