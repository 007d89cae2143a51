// Package drop discards messages.
package drop

import (
	"context"

	"github.com/flowd-io/flowd/engine"
)

const about = `
Discards messages; they count as delivered.

    outputs:
      nowhere: {drop: {}}
`

func init() {
	engine.Register(engine.Outputs, "drop", about, struct{}{}, newOutput)
}

type output struct{}

func newOutput(struct{}, engine.Env) (engine.Output, error) { return output{}, nil }

// Traits says that it is sequential, because no message fails.
func (output) Traits() engine.Traits { return engine.Traits{Sequential: true} }

// Write does nothing: all messages are safe.
func (output) Write(context.Context, *engine.Batch) error { return nil }
