// Package widget is a processor that sets a field.
package widget

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// Config is what stands in a pipeline file. The tags are all that lint, `flowd docs` and the JSON Schema need.
type Config struct {
	Field string `yaml:"field" check:"required,nonempty" doc:"Path of the field to set."`
	Text  string `yaml:"text" doc:"The text to set it to."`
}

func init() {
	engine.Register(engine.Processors, "widget", "Sets a field to a text.", Config{Text: "hello"}, newProcessor)
}

// newProcessor does no I/O: lint calls it, too. The function serves all lanes, so several goroutines call it at once.
func newProcessor(c Config, _ engine.Env) (engine.Processor, error) {
	path, err := doc.ParsePath(c.Field)
	if err != nil {
		return nil, err
	}
	return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		return m.Set(path, c.Text) // an error fails this message only
	}), nil
}
