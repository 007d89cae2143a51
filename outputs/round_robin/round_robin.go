// Package roundrobin is the output `round_robin`. The engine does the work: it sends messages to the outputs that the
// configuration names.
package roundrobin

import "github.com/flowd-io/flowd/engine"

// Config configures the output.
type Config struct {
	Outputs engine.Names `yaml:"outputs,main" check:"required,nonempty" doc:"Names of other outputs, in order."`
}

// Traits returns the outputs that it sends to.
func (c Config) Traits() engine.Traits { return engine.Traits{Members: c.Outputs} }

const about = `
Writes to its outputs in turn: single messages one by one, batches of a batcher as a whole.

    outputs:
      all: {round_robin: [a, b]}
      a: {http: "http://a.example/in"}
      b: {http: "http://b.example/in"}
`

func init() {
	engine.Register(engine.Outputs, "round_robin", about, Config{}, func(Config, engine.Env) (engine.Output, error) {
		return engine.Route{RoundRobin: true}, nil
	})
}
