// Package fallback is the output `fallback`. The engine does the work: it sends messages to the outputs that the
// configuration names.
package fallback

import "github.com/flowd-io/flowd/engine"

// Config configures the output.
type Config struct {
	Outputs engine.Names `yaml:"outputs,main" check:"required,nonempty" doc:"Names of other outputs, in order."`
}

// Traits returns the outputs that it sends to.
func (c Config) Traits() engine.Traits { return engine.Traits{Members: c.Outputs} }

const about = `
Writes to its outputs in order: each gets what failed for good in the one before.

The next output gets a message once the retries of the one before are used up, with
the payload as that one received it, and error_* in the metadata, as in a dead letter.
Messages that fail in the last output, or in a step, go where on_failure says; of the
on_failure of these outputs, only that of the last one applies.

    outputs:
      safe: {fallback: [database, file]}
      database: {http: "https://db.example/in"}
      file: {file: spool.ndjson}
`

func init() {
	engine.Register(engine.Outputs, "fallback", about, Config{}, func(Config, engine.Env) (engine.Output, error) {
		return engine.Route{Fallback: true}, nil
	})
}
