package file

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/compression"
	"github.com/flowd-io/flowd/internal/framing"
)

// errOther says that a file is not what it was: it has no record that ends
// where one was read to.
var errOther = errors.New("the file has changed")

// skipped is how much is read over between two looks at the context.
const skipped = 1 << 20

// resume cuts a file into records from a position on. Compressed files, and framings that
// need what comes before, are read from the beginning.
func resume(ctx context.Context, cfg *Config, src io.ReadSeeker, format compression.Format,
	at framing.Place) (framing.Reader, error) {
	switch {
	case at.Offset == 0:
		return cfg.Decompressed(format, src)
	case !cfg.Resumes():
		return reread(ctx, cfg, src, format, at)
	case format == compression.None:
		if _, err := src.Seek(at.Offset, io.SeekStart); err != nil {
			return nil, err
		}
		return cfg.Resume(src, at), nil
	}
	plain, err := compression.NewReader(format, src, nil)
	if err != nil {
		return nil, err
	}
	if err := skip(ctx, plain, at.Offset); err != nil {
		plain.Close()
		return nil, err
	}
	return cfg.Resume(plain, at), nil
}

// skip reads over n bytes.
func skip(ctx context.Context, r io.Reader, n int64) error {
	for left := n; left > 0; left -= skipped {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := io.CopyN(io.Discard, r, min(left, skipped)); errors.Is(err, io.EOF) {
			return errOther
		} else if err != nil {
			return err
		}
	}
	return nil
}

// reread reads the records before a position once more.
func reread(ctx context.Context, cfg *Config, src io.Reader, format compression.Format,
	at framing.Place) (framing.Reader, error) {
	rows, err := cfg.Decompressed(format, src)
	if err != nil {
		return nil, err
	}
	for n := 0; err == nil && rows.Place().Offset < at.Offset; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		_, err = rows.Next()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, framing.ErrLater) || err == nil && rows.Place().Offset != at.Offset {
		err = errOther
	}
	if err != nil {
		rows.Close()
		return nil, err
	}
	return rows, nil
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
func (s *source) Seek(offset int64, whence int) (int64, error) {
	f, err := s.open()
	if err != nil {
		return 0, err
	}
	at, err := f.Seek(offset, whence)
	s.bytes.Store(at)
	return at, err
}

var (
	_ io.ReadSeeker = (*source)(nil)
	_ io.ReadSeeker = (*growing)(nil)
)

// growing is a file that may grow: at its end it says whether it may, or that this is the
// end.
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
