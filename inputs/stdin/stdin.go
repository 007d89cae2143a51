// Package stdin reads messages from standard input.
package stdin

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// Config configures the input.
type Config struct {
	framing.Config `yaml:",inline"`
	Compression    string `yaml:"compression" check:"oneof=none|gzip|zstd|bzip2|snappy|lz4" doc:"How the stream is compressed."`
}

const about = `
Reads standard input, one message per line.

With framing, the stream is divided into records in another way. Metadata: line.

    inputs:
      log: {stdin: {}}
`

// Traits says that a crash loses the messages in flight, which everyone expects of a pipe.
func (Config) Traits() engine.Traits { return engine.Traits{Forgets: true, Lossy: true} }

func init() {
	engine.Register(engine.Inputs, "stdin", about, Config{Config: framing.Defaults, Compression: "none"}, newInput)
}

type input struct {
	cfg  Config
	file io.Reader
	meta engine.Meta

	pump *framing.Pump
}

var (
	_ engine.Opener = (*input)(nil)
	_ engine.Closer = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Index > 0 {
		return nil, errors.New("standard input has one reader (remove concurrency)")
	}
	return &input{cfg: c, file: os.Stdin, meta: engine.Meta{}.WithIndex("line")}, nil
}

// Open starts a goroutine that reads standard input, since such a read can't be cancelled.
func (in *input) Open(context.Context) error {
	in.pump = framing.NewPump(in.file, func(r io.Reader) (framing.Reader, error) {
		return in.cfg.Decompressed(compression.Format(in.cfg.Compression), r)
	})
	return nil
}

// Read adds the records that have arrived, and waits until there are some. A stream that has failed can't be read again, so
// its errors are permanent.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	err := in.pump.Fill(ctx, b, in.meta)
	switch {
	case errors.Is(err, io.EOF):
		err = engine.ErrEnd
	case err == nil || ctx.Err() != nil:
	default:
		err = engine.Errorf(engine.Permanent, "standard input: %w", err)
	}
	return nil, err
}

// Close stops reading.
func (in *input) Close(context.Context) error {
	in.pump.Close()
	return nil
}
