// Package compress is the processor `compress`. Start at [Config].
package compress

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

// Config configures the compress processor.
type Config struct {
	Format compression.Format `yaml:"format,main" check:"required,oneof=gzip|zstd|snappy|lz4" doc:"gzip, zstd, snappy or lz4; the last two framed, as their command-line tools write them."`
	Level  int                `yaml:"level" check:"min=0" doc:"Compression level, on the format's own scale: 1 to 9 for gzip, 1 to 22 for zstd; 0 is its default. The others have no levels."`
}

// CheckConfig rejects a level that the format does not have.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	switch most := compression.Levels(c.Format); {
	case c.Level <= most:
	case most == 0:
		report("level", fmt.Sprintf("%s has no levels", c.Format), "remove it, or choose gzip or zstd")
	default:
		report("level", fmt.Sprintf("%s has the levels 1 to %d", c.Format, most), fmt.Sprintf("write %d or less", most))
	}
}

const doc = `
Compresses the payload.

    - compress: gzip
    - compress: {format: zstd, level: 3}
`

func init() {
	engine.Register(engine.Processors, "compress", doc, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		body, err := compression.Compress(c.Format, m.Bytes(), c.Level)
		if err == nil {
			m.SetBytes(body)
		}
		return err
	}), nil
}
