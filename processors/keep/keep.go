// Package keep is the processor `keep`: it removes all fields except some. Its config is a list of paths.
package keep

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
)

const doc = `
Removes every field of the document that is not named. The others keep their order and
their text. A document that is not an object fails: split a list first, or use each.

    - keep: [id, customer.id, items]
`

func init() {
	engine.Register(engine.Processors, "keep", doc, fields.Paths{}, build)
}

func build(paths fields.Paths, _ engine.Env) (engine.Processor, error) {
	return engine.Edit{ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		for _, p := range paths {
			if err := m.Doc().Fits(p); err != nil {
				return err
			}
		}
		return m.Doc().Keep(paths)
	}}, nil
}
