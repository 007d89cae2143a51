// Package decompress is the processor `decompress`. Start at [Config].
package decompress

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the decompress processor.
type Config struct {
	Format  compression.Format `yaml:"format,main" check:"required,oneof=gzip|zstd|snappy|lz4" doc:"gzip, zstd, snappy or lz4; the last two framed, as their command-line tools write them."`
	MaxSize schema.Size        `yaml:"max_size" check:"min=1" doc:"Maximum size of the decompressed payload; a larger one fails the message."`
}

var defaults = Config{MaxSize: 64 << 20}

const doc = `
Decompresses the payload. Data that is corrupt, or longer than max_size when
decompressed, fails the message with class decode. The result counts against
engine.max_in_flight.bytes before memory is allocated for it: a message for which there
is no room waits.

    - decompress: gzip
    - decompress: {format: zstd, max_size: 1GiB}
`

func init() {
	engine.Register(engine.Processors, "decompress", doc, defaults, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		var full error
		body, err := compression.DecompressWithin(c.Format, m.Bytes(), int64(c.MaxSize), func(n int) error {
			full = m.Grow(n)
			return full
		})
		if errors.Is(err, compression.ErrTooLarge) {
			err = fmt.Errorf("%w (if that is expected, raise `max_size`)", err)
		}
		switch {
		case full != nil:
			return full
		case err != nil:
			return engine.WithClass(engine.Decode, err)
		}
		m.SetBytes(body)
		return nil
	}), nil
}
