package file

import (
	"errors"
	"io"
	"os"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// seekIn moves within src, from its beginning.
func seekIn(src io.Seeker) func(offset int64) error {
	return func(offset int64) error {
		_, err := src.Seek(offset, io.SeekStart)
		return err
	}
}

// fill adds records as framing.Fill does, and records where they end.
func fill(r framing.Reader, b *engine.Batch, meta engine.Meta, of *entry, next uint64, marks []mark) ([]mark, error) {
	for b.Room() > 0 {
		rec, err := r.Next()
		if err != nil {
			return marks, err
		}
		m := rec.AddTo(b, meta)
		m.Ref = next + uint64(len(marks))
		marks = append(marks, mark{of: of, place: r.Place()})
	}
	return marks, nil
}

// Seek moves within a regular file.
func (s *stream) Seek(offset int64, whence int) (int64, error) {
	f, err := s.open()
	if err != nil {
		return 0, err
	}
	at, err := f.Seek(offset, whence)
	s.bytes.Store(at)
	return at, err
}

var (
	_ io.ReadSeeker = (*stream)(nil)
	_ io.ReadSeeker = (*growing)(nil)
)

// growing is a file that may grow. At its end it returns whether more may come.
type growing struct {
	file *os.File
	at   int64
	ends bool
}

func (g *growing) Read(p []byte) (int, error) {
	n, err := g.file.ReadAt(p, g.at)
	g.at += int64(n)
	switch {
	case n > 0:
		return n, nil
	case errors.Is(err, io.EOF) && !g.ends:
		return 0, framing.ErrLater
	}
	return 0, err
}

func (g *growing) Seek(offset int64, _ int) (int64, error) {
	g.at = offset
	return offset, nil
}
