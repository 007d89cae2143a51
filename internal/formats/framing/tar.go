package framing

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/flowd-io/flowd/engine"
)

// archive turns each regular file of a tar archive into a record, with name, mode and time as metadata. Directories,
// links and devices are not records.
type archive struct {
	src *source
	tar *tar.Reader
	max int
	n   int
	end bool
}

func newArchive(r io.Reader, limit int) *archive {
	src := &source{r: r}
	return &archive{src: src, tar: tar.NewReader(src), max: limit}
}

// source remembers the error of its reader, so that a failing disk can be distinguished from invalid data.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Place counts records.
func (a *archive) Place() Place { return Place{Offset: int64(a.n), Line: a.n + 1} }

// Close releases what decompression uses.
func (a *archive) Close() error { return closeDecoder(a.src.r) }

func (a *archive) Next() (Record, error) {
	for !a.end {
		h, err := a.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return a.broken(Record{}, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		a.n++
		rec := Record{Line: a.n, Meta: func(m engine.Meta) engine.Meta {
			return m.With("name", h.Name).With("mode", fmt.Sprintf("%04o", h.Mode&0o7777)).With("modified",
				h.ModTime).Own()
		}}
		var body bytes.Buffer
		body.Grow(int(min(h.Size, int64(a.max), blockSize)))
		_, err = io.Copy(&body, io.LimitReader(a.tar, int64(a.max)))
		rec.Body = body.Bytes()
		if err != nil {
			return a.broken(rec, err)
		}
		if h.Size > int64(a.max) {
			long := cut(rec.Body, h.Size, a.max, nil)
			rec.Size, rec.Err = long.Size, long.Err
		}
		return rec, nil
	}
	return Record{}, io.EOF
}

// broken returns the last record: after a bad header nothing else can be found.
func (a *archive) broken(rec Record, err error) (Record, error) {
	a.end = true
	if a.src.err != nil {
		return Record{}, a.src.err
	}
	if rec.Line == 0 {
		a.n++
		rec.Line = a.n
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("file number %d is cut off", rec.Line)
	}
	rec.Err = engine.Errorf(engine.Decode, "not a whole tar archive: %w; what follows can't be read", err)
	return rec, nil
}
