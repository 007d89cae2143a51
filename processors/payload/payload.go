// Package payload is the processor `payload`: it replaces the payload by text or bytes. Its config is an expression.
package payload

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

const doc = `
Replaces the payload with the value of an expression: text and bytes as they are,
anything else as JSON. Use it for payloads that are not JSON; for documents use map.

    - payload: from_base64(data)
    - payload: '"<order id=\"" + string(id) + "\"/>"'

A message whose payload is not a document can be sent, split, or read with raw() and
decode; steps that read fields fail it. A document that is not an object, such as a list,
fails if the expression names a field of it.
`

func init() {
	engine.Register(engine.Processors, "payload", doc, expr.Body{}, build)
}

func build(body expr.Body, _ engine.Env) (engine.Processor, error) {
	return engine.Edit{Calls: body.Calls(), ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		text, err := body.AppendBody(nil, m)
		if err != nil {
			return err
		}
		m.SetBytes(text)
		return nil
	}}, nil
}
