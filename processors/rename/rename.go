// Package rename is the processor `rename`: it renames fields. Its config maps paths to paths.
package rename

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
)

const doc = `
Moves fields to other paths, in the order written. A missing field is not an error; a
field at the new path is replaced. A document that is not an object fails.

    - rename: {msg: message, user.id: customer.id}
`

func init() {
	engine.Register(engine.Processors, "rename", doc, fields.Moves{}, build)
}

func build(moves fields.Moves, _ engine.Env) (engine.Processor, error) {
	return engine.Edit{ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		for i := range moves {
			if err := m.Doc().Fits(moves[i].From); err != nil {
				return err
			}
			if err := m.Doc().Rename(moves[i].From, moves[i].To); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
