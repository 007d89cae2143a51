package compression

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// payloadWindow bounds the memory that a zstd frame in a payload may claim: the
// window that the format asks every decoder to support.
const payloadWindow = 8 << 20

// Decompress gives the data that src, one whole stream, comes out as. Data
// longer than max bytes is ErrTooLarge. It is safe for concurrent use.
func Decompress(f Format, src []byte, max int64) ([]byte, error) {
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
	out, err := d.decode(src, max)
	if err != nil {
		// What a decoder remembers of broken data is not worth knowing.
		d.r.Close()
		return nil, err
	}
	decoders.Put(d)
	return out, nil
}

// decoders are kept, since a new one costs more than most payloads. One pool
// serves all formats: a process rarely reads two.
var decoders sync.Pool

type decoder struct {
	format Format
	src    bytes.Reader
	r      io.ReadCloser
}

func (d *decoder) decode(src []byte, max int64) ([]byte, error) {
	d.src.Reset(src)
	if r, ok := d.r.(*reader); ok {
		r.r = nil // opens again, on the new source
	}
	var out bytes.Buffer
	out.Grow(int(min(int64(len(src))*4, max, 1<<20)) + bytes.MinRead)
	_, err := out.ReadFrom(Limit(d.r, max))
	if errors.Is(err, ErrTooLarge) {
		return nil, fmt.Errorf("%s: %w of %d bytes", d.format, ErrTooLarge, max)
	}
	if err == nil && len(src) == 0 && d.format != None {
		return nil, fmt.Errorf("%s data: empty", d.format)
	}
	return out.Bytes(), err
}

// Compress gives src as one whole stream, at a level as in NewWriter. It is
// safe for concurrent use.
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
	if out.Len() == 0 { // snappy's writer says nothing of nothing
		out.WriteString(magic[f])
	}
	w.Reset(nil) // lets go of out
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
