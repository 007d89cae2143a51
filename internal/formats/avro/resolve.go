package avro

import (
	"errors"
	"fmt"

	twmb "github.com/twmb/avro"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// resolved reads what was written by one schema as documents of another. It can't write.
type resolved struct {
	writer  *Program
	through *twmb.Schema
	reader  *Program
}

// readBy is the codec for payloads of p; with a reader, its documents.
func (p *Program) readBy(reader *Program) (codec.Codec, error) {
	if reader == nil {
		return p, nil
	}
	through, err := twmb.Resolve(p.parsed, reader.parsed)
	if err != nil {
		return nil, fmt.Errorf("what this schema writes can't be read by that of `reader`: %w", err)
	}
	return &resolved{p, through, reader}, nil
}

// Working is what the library makes of a payload: boxed values, in maps for records.
func (r *resolved) Working(payload []byte) int { return 256 * len(payload) }

func (r *resolved) Decode(dst, payload []byte) ([]byte, error) {
	return r.DecodeWithin(dst, payload, codec.MaxSize)
}

// DecodeWithin has the library turn the payload into one of the reader's schema. What takes
// no bytes in a payload takes memory in the library: how much it is as a document bounds it.
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
	return dst, errors.New("avro: a reader's schema can't be encoded by")
}
