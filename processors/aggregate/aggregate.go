// Package aggregate is the batch step `aggregate`: it turns a batch into one message. Its config maps paths to
// expressions.
package aggregate

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/components/fields"
)

const help = `
Turns a batch into one document: each line is an expression over messages(). Bare
fields are those of the first message; later steps and the output see the new document.

    batchers:
      all:
        batch: {size: 100, timeout: 1s}
        processors:
          - aggregate:
              customer: customer.id
              orders: len(messages())
              total: sum(messages(), .total)
        output: out
`

func init() {
	engine.Register(engine.Processors, "aggregate", help, fields.Lines{}, build)
}

func build(lines fields.Lines, _ engine.Env) (engine.Processor, error) {
	return aggregator(lines), nil
}

type aggregator fields.Lines

// Traits reports that the step needs whole batches.
func (aggregator) Traits() engine.Traits { return engine.Traits{WholeBatches: true} }

// Process evaluates all lines before it merges the messages, since merging ends them. An error fails all of them.
func (a aggregator) Process(_ context.Context, b *engine.Batch) error {
	for first := range b.All() {
		var d doc.Doc
		d.Reset([]byte("{}"), nil)
		if err := fields.Lines(a).Object(first, &d); err != nil {
			return err
		}
		b.Merge(d.Bytes(), b.All())
		return nil
	}
	return nil
}
