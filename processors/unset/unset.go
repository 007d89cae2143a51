// Package unset is the processor `unset`: it removes fields. Its config is a list of paths.
package unset

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
)

const doc = `
Removes fields from the document. A missing field is not an error, but a document
that is not an object is one: split a list first, or use each.

    - unset: [password, customer.card]
`

func init() {
	engine.Register(engine.Processors, "unset", doc, fields.Paths{}, build)
}

func build(paths fields.Paths, _ engine.Env) (engine.Processor, error) {
	return engine.Edit{ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		for _, p := range paths {
			if err := m.Doc().Fits(p); err != nil { // the field to remove might be in its elements
				return err
			}
			if err := m.Unset(p); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
