//go:build no_avro || no_protobuf || slim

package formats

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// decoder and encoder are what decode and encode require of a format whose payloads have schemas.
type (
	decoder interface {
		Reader(ctx context.Context, payload []byte) (c codec.Codec, body []byte, id any, err error)
	}
	encoder interface {
		Writer(ctx context.Context, m *engine.Message) (c codec.Codec, prefix []byte, err error)
	}
)
