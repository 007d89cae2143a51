package avro

import (
	"errors"
	"fmt"

	twmb "github.com/twmb/avro"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// resolved decodes payloads of one schema to documents of another. It can't encode.
type resolved struct {
	writer  *Program
	through *twmb.Schema
	reader  *Program
}

// readBy returns the codec for payloads of p. With a reader, documents have its schema.
func (p *Program) readBy(reader *Program) (codec.Codec, error) {
	if reader == nil {
		return p, nil
	}
	through, err := twmb.Resolve(p.parsed, reader.parsed)
	if err != nil {
		return nil, fmt.Errorf("the schema in `reader` can't read what this schema writes: %w", err)
	}
	return &resolved{p, through, reader}, nil
}

// Working estimates the library's values for a payload: boxed, and in maps for records.
func (r *resolved) Working(payload []byte) int { return 256 * len(payload) }

func (r *resolved) Decode(dst, payload []byte) ([]byte, error) {
	return r.DecodeWithin(dst, payload, codec.MaxSize)
}

// DecodeWithin lets the library convert the payload to the reader's schema. Values without bytes in the payload take
// memory in the library. The size of the document bounds them.
func (r *resolved) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	bound := 1<<20 + 64*len(payload)
	_, err := r.writer.DecodeWithin(nil, payload, min(limit, bound))
	switch {
	case errors.Is(err, codec.ErrLimit) && bound < limit:
		return dst, errors.New("avro: decodes to more than 64 times its size (remove `reader`)")
	case err != nil:
		return dst, err
	}
	var v any
	_, err = r.through.Decode(payload, &v, twmb.TaggedUnions())
	var again []byte
	if err == nil {
		again, err = r.reader.parsed.AppendEncode(nil, v)
	}
	if err != nil {
		return dst, fmt.Errorf("avro: %w", err)
	}
	return r.reader.DecodeWithin(dst, again, limit)
}

func (r *resolved) Encode(dst, _ []byte) ([]byte, error) {
	return dst, errors.New("avro: a reader's schema can't encode")
}
