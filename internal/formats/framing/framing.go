// Package framing cuts streams into records and joins records to streams. Start
// at [Reader], which [Config.Reader] makes; [Record.AddTo] makes messages of
// its records, [Pump] does so for a stream whose reads block, and [Writer] is
// the way back.
package framing

import (
	"errors"
	"fmt"
	"io"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

// Reader cuts a stream into records. Bytes of a record never change and may be
// kept. One goroutine uses a Reader at a time.
type Reader interface {
	// Next is the next record. A record that is broken, cut off or too long has Err set,
	// and the stream continues after it. An error ends the stream: io.EOF, or that of the
	// underlying reader. Only ErrLater does not.
	Next() (Record, error)

	// Place is after the last record that Next gave.
	Place() Place

	// Close frees what decompression takes. The underlying reader stays open. It is
	// for streams that may be compressed.
	Close() error
}

// ErrLater is what the reader under a Reader gives when there is nothing more
// for now: Next passes it on, and the Next after it reads on. Only uncompressed
// streams may have it, and tar archives may not.
var ErrLater = errors.New("nothing more for now")

// Place is where a stream continues: after a record, or the zero Place.
type Place struct {
	Offset int64 // bytes of the uncompressed stream; in a tar archive, records
	Line   int   // of what follows, as Record.Line; 0 is the first
}

// Record is one record of a stream.
type Record struct {
	Body []byte
	Line int           // the line at which it begins, from 1; where lines mean nothing, its number
	Err  *engine.Error // why it is broken
	Size int64         // of the whole record in bytes, where Body is only its beginning; else 0

	// Meta, if set, is the metadata that the record brings, on top of or
	// instead of that of the stream.
	Meta func(base engine.Meta) engine.Meta
}

// AddTo adds the record to a batch that has room. base is the metadata of the
// stream, with an index (see [engine.Meta.WithIndex]) for the line.
func (r *Record) AddTo(b *engine.Batch, base engine.Meta) *engine.Message {
	m := b.Add(r.Body)
	m.Meta = base.At(r.Line)
	if r.Meta != nil {
		m.Meta = r.Meta(m.Meta)
	}
	if r.Size > 0 {
		m.Meta = m.Meta.With(truncated, true).With(originalSize, int(r.Size))
	}
	if r.Err != nil {
		m.Fail(r.Err)
	}
	return m
}

// The metadata of a message that is only the beginning of its record, so that
// nobody takes its dead letter for the whole.
const (
	truncated    = "truncated"
	originalSize = "original_size" // in bytes
)

// closeDecoder is Close of a Reader of src.
func closeDecoder(src io.Reader) error {
	if s, ok := src.(*compression.Stream); ok {
		return s.Close()
	}
	return nil
}

// Fill adds records to b until it is full or the stream has ended.
func Fill(r Reader, b *engine.Batch, base engine.Meta) error {
	text, _ := r.(*blocks)
	for b.Room() > 0 {
		if text != nil {
			if text.addLines(b, base); b.Room() == 0 {
				break
			}
		}
		rec, err := r.Next()
		if err != nil {
			return err
		}
		rec.AddTo(b, base)
	}
	return nil
}

// cut is the beginning of a record of length bytes; err, which may be nil, is what
// else is wrong with it.
func cut(head []byte, length int64, limit int, err *engine.Error) Record {
	if err == nil {
		err = engine.Errorf(engine.Decode, "record of %d bytes is longer than max_record (%s)", length, size(limit))
	}
	return Record{Body: head, Size: length, Err: err}
}

// size writes a number of bytes as a configuration does.
func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
