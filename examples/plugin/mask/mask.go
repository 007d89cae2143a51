// Package mask is a processor that hides a field.
package mask

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// Config configures the mask processor.
type Config struct {
	Field string `yaml:"field" check:"required" doc:"Path of the field to hide."`
}

func init() {
	engine.Register(engine.Processors, "mask", "Hides a field behind stars.", Config{},
		func(c Config, _ engine.Env) (engine.Processor, error) {
			path, err := doc.ParsePath(c.Field)
			return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
				return m.Set(path, "***")
			}), err
		})
}
