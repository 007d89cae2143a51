// Package pipe passes messages to inputs `pipe` of other pipelines in the process.
package pipe

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/pipe"
)

// Config configures the output.
type Config struct {
	Name string `yaml:"name,main" check:"required,nonempty" doc:"Name of the pipe, the same as in the input that reads from it."`
}

const about = `
Hands messages to the pipe input of the same name, in another pipeline of the process.

Payload, metadata and order key are handed over. A write ends when that pipeline has
read the messages; their fate there is their fate here.

    outputs:
      orders: {pipe: orders}
`

func init() {
	engine.Register(engine.Outputs, "pipe", about, Config{}, newOutput)
}

type output struct{ link *pipe.Link }

var (
	_ engine.Opener = output{}
	_ engine.Closer = output{}
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	link := pipe.Of(env.Shared, c.Name)
	link.AddWriter()
	return output{link}, nil
}

// Open checks that some input reads the pipe.
func (o output) Open(context.Context) error { return o.link.CheckReaders() }

// Write waits until an input has read the messages. They are settled when they have their fate in the other pipeline.
func (o output) Write(ctx context.Context, b *engine.Batch) error {
	o.link.Write(ctx, b)
	return nil
}

// Close ends this writer.
func (o output) Close(context.Context) error {
	o.link.EndWriter()
	return nil
}
