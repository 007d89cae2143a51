// Package steps is the processor `steps`: it runs a named list of steps. Its
// config is the name.
package steps

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Config names an entry of resources.steps.
type Config struct {
	Name  string
	Place schema.Place
}

// UnmarshalConfig reads the name.
func (c *Config) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	c.Name, _ = d.Text(n)
	c.Place = d.Place(n)
}

// DescribeConfig is text.
func (c *Config) DescribeConfig() *schema.Type { return schema.AnyOf("name", "") }

const doc = `
Runs a list of steps that resources.steps defines under this name.

    resources:
      steps:
        clean:
          - unset: [password]
    processors:
      - steps: clean
`

func init() {
	engine.Register(engine.Processors, "steps", doc, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	return engine.Block{Use: c.Name, Place: c.Place}, nil
}
