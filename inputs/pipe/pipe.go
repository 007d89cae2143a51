// Package pipe reads messages that outputs `pipe` of other pipelines in the process write.
package pipe

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/pipe"
)

// Config configures the input.
type Config struct {
	Name string `yaml:"name,main" check:"required,nonempty" doc:"Name of the pipe, the same as in the outputs that write to it."`
}

const about = `
Reads what pipe outputs of the same name write, in any pipeline of the process.

A message's fate here is also its fate in the pipeline that wrote it. The input ends
when all of its writers have ended.

    inputs:
      orders: {pipe: orders}
`

func init() {
	engine.Register(engine.Inputs, "pipe", about, Config{}, newInput)
}

type input struct {
	*pipe.Reader
	link    *pipe.Link
	name    string
	counted bool // among the link's readers
}

var (
	_ engine.Opener  = (*input)(nil)
	_ engine.Closer  = (*input)(nil)
	_ engine.Traited = (*input)(nil)
	_ engine.Yielder = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	link := pipe.Of(env.Shared, c.Name)
	link.AddReader()
	return &input{link.NewReader(), link, c.Name, true}, nil
}

// Open checks that some output writes to the pipe.
func (in *input) Open(context.Context) error {
	if !in.counted { // it was closed
		in.link.AddReader()
		in.counted = true
	}
	return in.link.CheckWriters()
}

// Read adds messages that outputs offer.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	return in.Reader, in.Reader.Read(ctx, b)
}

// Traits says that each message is returned individually, and that the input ends when all writers of its pipe have ended.
func (in *input) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesOne, Follows: in.name}
}

// Close returns messages that were not read.
func (in *input) Close(context.Context) error {
	in.Reader.Close()
	if in.counted {
		in.link.EndReader()
		in.counted = false
	}
	return nil
}
