// Package set is the processor `set`: it assigns values to fields. Its config maps paths to expressions.
package set

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
)

const doc = `
Assigns values to fields of the document, in the order written: later lines see
earlier ones. Missing parents become objects, nil writes null, and a bare path
on the right copies the text as it is.

    - set:
        total_eur: total * rate
        customer.name: upper(customer.name)
`

func init() {
	engine.Register(engine.Processors, "set", doc, fields.Lines{}, build)
}

func build(lines fields.Lines, _ engine.Env) (engine.Processor, error) {
	return engine.Edit{Calls: lines.Calls(), ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		for i := range lines {
			if err := lines[i].Apply(m, m.Doc()); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
