// Package let is the processor `let`: it keeps values with a message, for later steps. Its config maps names to
// expressions.
package let

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

const doc = `
Keeps values alongside the message, in the order written: later lines, and later steps,
read them with vars("name"). They are neither payload nor metadata, and no output sends
them; but an output's fields and steps can read them, even those of a dead-letter output.
nil removes a name.

    - let:
        net: sum(items, .price * .qty)
        tax: vars("net") * rate
    - set:
        total: vars("net") + vars("tax")

A value may be any result of an expression, including times and bytes. Parts of a split,
copies for several batchers, the elements of each and jobs of a pool inherit the values
of their message, and a merge those of its first. If a step is retried or repaired, the
values are those from before it. What steps inside each or branch keep stays inside.
vars() gives all of them, and vars("name") is nil until a step has set it; lint reports a
name that no let sets.
`

func init() {
	engine.Register(engine.Processors, "let", doc, schema.Map[expr.Value]{}, build)
}

func build(lines schema.Map[expr.Value], _ engine.Env) (engine.Processor, error) {
	if lines.Len() == 0 {
		return nil, errors.New("let needs at least one line, such as `let: {total: price * qty}`")
	}
	var calls expr.Calls
	for _, value := range lines.All() {
		calls = append(calls, value.Calls()...)
	}
	return engine.Edit{Calls: calls, ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		was := m.Vars()
		err := keep(m, lines)
		if err != nil {
			m.SetVars(was)
		}
		return err
	}}, nil
}

// keep evaluates line by line. Large values take credits, like a payload.
func keep(m *engine.Message, lines schema.Map[expr.Value]) error {
	for name, value := range lines.All() {
		v, err := value.Eval(m)
		if err != nil {
			return err
		}
		now := m.Vars().With(name, v)
		if more := now.Size() - m.Vars().Size(); more > free {
			if err := m.Grow(more); err != nil {
				return err
			}
		}
		m.SetVars(now)
	}
	return nil
}

// free is how many bytes a line may keep without taking credits at once: the engine charges them when the message
// moves on.
const free = 1 << 10
