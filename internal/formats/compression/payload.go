package compression

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// payloadWindow bounds the memory that a zstd frame in a payload may claim: the window that the format requires every
// decoder to support.
const payloadWindow = 8 << 20

// Decompress returns the decompressed data of src, one whole stream. Data longer than max bytes gives ErrTooLarge. It
// is safe for concurrent use.
func Decompress(f Format, src []byte, max int64) ([]byte, error) {
	return DecompressWithin(f, src, max, func(int) error { return nil })
}

// DecompressWithin is Decompress, but asks grow for the memory of the result before it allocates. It returns the
// error of grow, which must not wait: only a limited number of payloads are decompressed at once.
func DecompressWithin(f Format, src []byte, max int64, grow func(n int) error) ([]byte, error) {
	slots <- struct{}{}
	defer func() { <-slots }()
	d, _ := decoders.Get().(*decoder)
	if d == nil || d.format != f {
		if d != nil {
			d.r.Close()
		}
		d = &decoder{format: f}
		r, err := newReader(f, &d.src, payloadWindow)
		if err != nil {
			return nil, err
		}
		d.r = r
	}
	out, err := d.decode(src, max, grow)
	if err != nil {
		// Close errors of a decoder with broken data do not matter.
		d.r.Close()
		return nil, err
	}
	decoders.Put(d)
	return out, nil
}

// decoders keeps decoders, since a new one costs more than most payloads. One pool serves all formats: a process
// rarely reads two.
var decoders sync.Pool

type decoder struct {
	format Format
	src    bytes.Reader
	r      io.ReadCloser
	head   []byte // data that fits is decompressed only once
}

const headSize = 32 << 10

// decode decompresses data that does not fit head twice: once to learn its length. A growing buffer would need twice
// the memory.
func (d *decoder) decode(src []byte, max int64, grow func(n int) error) ([]byte, error) {
	if d.head == nil {
		d.head = make([]byte, headSize)
	}
	r := d.begin(src, max)
	n, err := fill(d.head, r)
	head := n
	for err == nil {
		more := 0
		more, err = fill(d.head, r)
		n += more
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("%s: %w of %d bytes", d.format, ErrTooLarge, max)
	case !errors.Is(err, io.EOF):
		return nil, err
	case len(src) == 0 && d.format != None:
		return nil, fmt.Errorf("%s data: empty", d.format)
	}
	if err := grow(n); err != nil {
		return nil, err
	}
	out := make([]byte, n)
	if head == n && n < headSize {
		copy(out, d.head)
		return out, nil
	}
	if n, err = fill(out, d.begin(src, max)); n < len(out) {
		return nil, fmt.Errorf("%s: it decompressed to %d bytes first, and then to %d: %w", d.format, len(out), n, err)
	}
	return out, nil
}

// begin reads src from its beginning.
func (d *decoder) begin(src []byte, max int64) io.Reader {
	d.src.Reset(src)
	if r, ok := d.r.(*reader); ok {
		r.r = nil // opens again, with the new source
	}
	return Limit(d.r, max)
}

// fill reads len(p) bytes, or returns fewer with an error.
func fill(p []byte, r io.Reader) (n int, err error) {
	for n < len(p) && err == nil {
		more := 0
		more, err = r.Read(p[n:])
		n += more
	}
	return n, err
}

// Compress returns src as one whole stream. Levels are as in NewWriter. It is safe for concurrent use.
func Compress(f Format, src []byte, level int) ([]byte, error) {
	key := encoderKey{f, level}
	pool, ok := encoders.Load(key)
	if !ok {
		pool, _ = encoders.LoadOrStore(key, new(sync.Pool))
	}
	var out bytes.Buffer
	out.Grow(len(src)/2 + 64)
	w, _ := pool.(*sync.Pool).Get().(resetter)
	if w == nil {
		made, err := NewWriter(f, &out, level)
		if err != nil {
			return nil, err
		}
		w, ok = made.(resetter)
		if !ok { // None
			return bytes.Clone(src), nil
		}
	} else {
		w.Reset(&out)
	}
	if _, err := w.Write(src); err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	if out.Len() == 0 { // snappy's writer writes nothing for empty data
		out.WriteString(magic[f])
	}
	w.Reset(nil) // releases out
	pool.(*sync.Pool).Put(w)
	return out.Bytes(), nil
}

type encoderKey struct {
	format Format
	level  int
}

var encoders sync.Map // encoderKey to *sync.Pool of resetter

type resetter interface {
	io.WriteCloser
	Reset(w io.Writer)
}
