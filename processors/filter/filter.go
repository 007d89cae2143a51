// Package filter is the processor `filter`: it keeps the messages for which an
// expression holds. Its config is the expression.
package filter

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

const doc = `
Keeps the messages for which the expression is true; the others end as filtered.

    - filter: status >= 500
`

func init() {
	engine.Register(engine.Processors, "filter", doc, expr.Cond{}, build)
}

func build(keep expr.Cond, _ engine.Env) (engine.Processor, error) {
	return engine.Edit{Calls: keep.Calls(), ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		ok, err := keep.Test(m)
		if err == nil && !ok {
			m.Drop()
		}
		return err
	}}, nil
}
