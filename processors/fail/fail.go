// Package fail is the processor `fail`: it fails messages on purpose. Its
// config is the reason.
package fail

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

const doc = `
Fails every message that reaches it, with your own reason. The class is permanent: the
message is not retried.

    - fail: unknown plan $(customer.plan)
      when: not (customer.plan in ["free", "enterprise"])
`

func init() {
	engine.Register(engine.Processors, "fail", doc, expr.Template{}, build)
}

func build(reason expr.Template, _ engine.Env) (engine.Processor, error) {
	return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		text, err := reason.Text(m)
		if err != nil {
			return err
		}
		return errors.New(text)
	}), nil
}
