// Package meta is the processor `meta`: it sets metadata. Its config maps names to expressions.
package meta

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

const doc = `
Sets metadata, in the order written: later lines see earlier ones. nil removes a
name. Outputs send metadata as headers where their system supports them.

    - meta:
        tenant: customer.id
        received_from: nil
`

func init() {
	engine.Register(engine.Processors, "meta", doc, schema.Map[expr.Expr]{}, build)
}

func build(lines schema.Map[expr.Expr], _ engine.Env) (engine.Processor, error) {
	if lines.Len() == 0 {
		return nil, errors.New("meta needs at least one line, such as `meta: {tenant: customer.id}`")
	}
	var calls expr.Calls
	for _, value := range lines.All() {
		calls = append(calls, value.Calls()...)
	}
	return engine.Edit{Calls: calls, ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		for name, value := range lines.All() {
			v, err := value.Eval(m)
			if err != nil {
				return err
			}
			if v == nil {
				m.Meta = m.Meta.Without(name)
				continue
			}
			m.Meta = m.Meta.With(name, v)
		}
		return nil
	}}, nil
}
