// Package widget is an input that counts.
package widget

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
)

// Config is what stands in a pipeline file. The tags are all that lint, `flowd docs` and the JSON Schema need.
type Config struct {
	Count int `yaml:"count" check:"min=1" doc:"How many messages to make."`
}

func init() {
	engine.Register(engine.Inputs, "widget", "Counts from 1 up, and ends.", Config{Count: 10}, newInput)
}

type input struct{ made, count int }

// newInput does no I/O: lint calls it, too. An input that connects to something does so in Open.
func newInput(c Config, _ engine.Env) (engine.Input, error) { return &input{count: c.Count}, nil }

// Read waits for the first message only, and then adds as many as there are, up to the room of the batch.
//
// This input can't take back a message, so it returns no Acker. See docs/plugins.md of flowd for one that can.
func (in *input) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	for ; in.made < in.count && b.Room() > 0; in.made++ {
		b.Add(fmt.Appendf(nil, `{"number":%d}`, in.made+1))
	}
	if in.made == in.count {
		return nil, engine.ErrEnd
	}
	return nil, nil
}
