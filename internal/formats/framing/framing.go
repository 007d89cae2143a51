// Package framing divides streams into records and joins records to streams. Start at [Reader], which [Config.Reader]
// makes. [Record.AddTo] makes messages of its records, [Pump] does so for a stream whose reads block, and [Writer] is
// the way back.
package framing

import (
	"errors"
	"fmt"
	"io"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

// Reader divides a stream into records. Bytes of a record never change and may be kept. Only one goroutine may use a
// Reader at a time.
type Reader interface {
	// Next returns the next record. A record that is broken, cut off or too long has Err set, and the stream
	// continues after it. An error ends the stream: io.EOF, or that of the underlying reader. Only ErrLater does not.
	Next() (Record, error)

	// Place returns the place after the last record of Next.
	Place() Place

	// Close releases what decompression uses. The underlying reader stays open. It is for streams that may be
	// compressed.
	Close() error
}

// ErrLater is the error of the underlying reader if there is no more data for now. Next returns it, and the next call
// continues. Only uncompressed streams may use it, and not tar archives.
var ErrLater = errors.New("nothing more for now")

// Place is where a stream continues: after a record, or the zero Place at its beginning.
type Place struct {
	Offset int64 // in bytes of the uncompressed stream; in a tar archive, in records
	Line   int   // of what follows, as in Record.Line; 0 is the first
}

// Record is one record of a stream.
type Record struct {
	Body []byte
	Line int           // the line where it begins, from 1, or the record's number if the framing has no lines
	Err  *engine.Error // why it is broken
	Size int64         // length of the whole record in bytes if Body is only its beginning, else 0

	// Meta, if set, returns the record's own metadata, in addition to or in place of base, the stream's metadata.
	Meta func(base engine.Meta) engine.Meta
}

// AddTo adds the record to a batch that has room. base is the metadata of the stream, with an index (see
// [engine.Meta.WithIndex]) for the line.
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

// The metadata of a message that contains only the beginning of its record, so that its dead letter is not mistaken
// for the whole.
const (
	truncated    = "truncated"
	originalSize = "original_size" // in bytes
)

// closeDecoder closes src if it decompresses.
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

// cut returns the beginning of a record of length bytes. err, if not nil, is another error of the record.
func cut(head []byte, length int64, limit int, err *engine.Error) Record {
	if err == nil {
		err = engine.Errorf(engine.Decode, "record of %d bytes is longer than max_record (%s)", length, size(limit))
	}
	return Record{Body: head, Size: length, Err: err}
}

// size formats a number of bytes as in a configuration.
func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
