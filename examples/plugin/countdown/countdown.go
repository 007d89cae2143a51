// Package countdown is an input that counts down.
package countdown

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
)

// Config configures the countdown input.
type Config struct {
	From int `yaml:"from" check:"min=1" doc:"The first number."`
}

func init() {
	engine.Register(engine.Inputs, "countdown", "Counts down to 1 and ends.", Config{From: 10},
		func(c Config, _ engine.Env) (engine.Input, error) { return &input{next: c.From}, nil })
}

type input struct{ next int }

// Read adds as many numbers as there is room for. There is nobody to acknowledge to, so
// there is no Acker.
func (in *input) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	for ; in.next > 0 && b.Room() > 0; in.next-- {
		b.Add(fmt.Appendf(nil, `{"left": %d, "code": "a%[1]d"}`, in.next))
	}
	if in.next == 0 {
		return nil, engine.ErrEnd
	}
	return nil, nil
}
