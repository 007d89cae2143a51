// Package mapstep is the processor `map`: it makes a new document. Its config is an expression, or maps paths to
// expressions.
package mapstep

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/schema"
)

// Config is the expression of the new document, or the expressions of its fields.
type Config struct {
	Whole expr.Expr
	Lines fields.Lines
}

// UnmarshalConfig decodes an expression or a mapping.
func (c *Config) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.MapNode {
		d.Decode(n, &c.Lines)
		return
	}
	d.Decode(n, &c.Whole)
}

// DescribeConfig describes an expression, or a mapping of paths to expressions.
func (c *Config) DescribeConfig() *schema.Type {
	return schema.AnyOf("expression, or {path: expression}", expr.Expr{}, fields.Lines{})
}

const help = `
Makes a new document: the value of an expression, or an object with the given paths. All
expressions see the old document; fields that are not named are removed. A document that
is not an object fails if an expression names a field of it.

    - map: payload.order
    - map:
        id: order_id
        total: sum(items, .price)
`

func init() {
	engine.Register(engine.Processors, "map", help, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	switch {
	case len(c.Lines) > 0:
		return engine.Edit{ProcessorFunc: c.object, Calls: c.Lines.Calls()}, nil
	case c.Whole.IsZero():
		return nil, errors.New("map needs an expression or fields, such as `map: {id: order_id}`")
	}
	if p, ok := c.Whole.Path(); ok {
		return engine.Edit{ProcessorFunc: c.move(p)}, nil
	}
	return engine.Edit{ProcessorFunc: c.value, Calls: c.Whole.Calls()}, nil
}

var emptyObject = []byte("{}") // read-only

// object builds the new document from the old one.
func (c *Config) object(_ context.Context, m *engine.Message) error {
	var d doc.Doc
	d.Reset(emptyObject, m.Doc().Arena())
	if err := c.Lines.Object(m, &d); err != nil {
		return err
	}
	m.SetBytes(d.Bytes())
	return nil
}

func (c *Config) value(_ context.Context, m *engine.Message) error {
	if err := c.Whole.Fits(m); err != nil {
		return err
	}
	return c.Whole.Encode(m, m.SetValue)
}

// move replaces the document by a part of it, with the same spelling.
func (c *Config) move(from doc.Path) engine.ProcessorFunc {
	return func(_ context.Context, m *engine.Message) error {
		if err := c.Whole.Fits(m); err != nil {
			return err
		}
		raw, ok, err := m.Document().Raw(from)
		if err != nil {
			return err
		}
		if !ok {
			return m.SetValue(nil)
		}
		m.SetBytes(raw)
		return nil
	}
}
