package framing

import (
	"context"
	"errors"
	"io"

	"github.com/flowd-io/flowd/internal/formats/compression"
)

// ErrOther says that a stream is not the one that was read: no record ends at the given place.
var ErrOther = errors.New("it has changed since it was read")

// skipped is how many bytes are skipped between checks of the context.
const skipped = 1 << 20

// Continue divides a stream, which may be compressed, into records from a place on. seek moves r to an offset. If it
// is called, then before the first read. Compressed streams, and framings that need what comes before, are read from
// the beginning.
func (c *Config) Continue(ctx context.Context, f compression.Format, r io.Reader, seek func(offset int64) error,
	at Place) (Reader, error) {
	switch {
	case at.Offset == 0:
		return c.Decompressed(f, r)
	case !c.Resumes():
		return c.reread(ctx, f, r, at)
	case f == compression.None:
		if err := seek(at.Offset); err != nil {
			return nil, err
		}
		return c.Resume(r, at), nil
	}
	plain, err := decompressed(f, r)
	if err != nil {
		return nil, err
	}
	if err := skip(ctx, plain, at.Offset); err != nil {
		plain.Close()
		return nil, err
	}
	return c.Resume(plain, at), nil
}

// skip skips n bytes.
func skip(ctx context.Context, r io.Reader, n int64) error {
	for left := n; left > 0; left -= skipped {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := io.CopyN(io.Discard, r, min(left, skipped)); errors.Is(err, io.EOF) {
			return ErrOther
		} else if err != nil {
			return err
		}
	}
	return nil
}

// reread reads the records before a place again.
func (c *Config) reread(ctx context.Context, f compression.Format, r io.Reader, at Place) (Reader, error) {
	rows, err := c.Decompressed(f, r)
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
	if errors.Is(err, io.EOF) || errors.Is(err, ErrLater) || err == nil && rows.Place().Offset != at.Offset {
		err = ErrOther
	}
	if err != nil {
		rows.Close()
		return nil, err
	}
	return rows, nil
}
