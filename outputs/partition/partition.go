// Package partition is the output `partition`. The engine does the work: it sends messages to the outputs that the
// configuration names.
package partition

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Config configures the output.
type Config struct {
	Key     expr.Expr    `yaml:"key" check:"required" doc:"Messages with equal values go to the same output."`
	Outputs engine.Names `yaml:"outputs" check:"required,nonempty" doc:"Names of other outputs."`
}

// Traits returns the outputs that it sends to.
func (c Config) Traits() engine.Traits { return engine.Traits{Members: c.Outputs} }

const about = `
Writes messages with equal keys to the same output, for as long as the process runs. A
message without a key goes to the first.

    outputs:
      shards: {partition: {key: customer.id, outputs: [a, b]}}
      a: {file: a.ndjson}
      b: {file: b.ndjson}
`

func init() {
	engine.Register(engine.Outputs, "partition", about, Config{}, func(c Config, _ engine.Env) (engine.Output, error) {
		return engine.Route{Key: &c.Key}, nil
	})
}
