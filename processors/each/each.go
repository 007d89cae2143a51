// Package each is the processor `each`: it runs steps on the elements of an array. Start at [Config].
package each

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
)

// Config configures the each processor.
type Config struct {
	In   expr.Expr    `yaml:"in" check:"required" doc:"The array. The steps see each element as a separate document."`
	Do   engine.Steps `yaml:"do" check:"required,nonempty" doc:"The steps."`
	Into fields.Path  `yaml:"into" doc:"Field for the results: by default the array's own, if in is a path."`
}

const help = `
Runs steps on each element of an array, as a separate message, and replaces the array
with the results. An element that a step drops is removed; one that fails
fails the message. Elements have the message's metadata.

    - each:
        in: items
        do:
          - filter: qty > 0
          - set: {total: qty * price}
`

func init() {
	engine.Register(engine.Processors, "each", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	steps, err := c.Do.Build(env)
	if err != nil {
		return nil, err
	}
	e := &each{in: c.In, into: c.Into.Path, steps: steps}
	e.from, e.bare = c.In.Path()
	switch {
	case c.Into.IsZero() && !e.bare:
		return nil, fmt.Errorf("in is not a path, so there is no field for the results of %q (give a path as `into`)",
			c.In.String())
	case c.Into.IsZero():
		e.into = e.from
	}
	return engine.ProcessorFunc(e.process), nil
}

type each struct {
	in    expr.Expr
	from  doc.Path // of an expression that is just a path
	bare  bool
	into  doc.Path
	steps engine.Runner
}

// run is how many elements become messages at once. A long array of short elements would otherwise take many times
// its size.
const run = 256

func (e *each) process(ctx context.Context, m *engine.Message) error {
	array, err := e.array(m)
	if err != nil {
		return err
	}
	next, stop := iter.Pull(doc.Elements(array))
	defer stop()
	out := append(make([]byte, 0, len(array)+len(array)/4), '[')
	room := atMost(run, array)
	for n := 0; ; {
		b := engine.NewBatch(room)
		for b.Room() > 0 {
			element, ok := next()
			if !ok {
				break
			}
			part := b.Add(element)
			part.Within(m)
			part.Ref = uint64(n + b.Len() - 1)
		}
		if b.Len() == 0 {
			return m.Doc().SetRaw(e.into, append(out, ']'))
		}
		if err := e.steps.Run(ctx, b); err != nil {
			return err
		}
		had := len(out)
		if out, err = collect(out, b); err != nil {
			return err
		}
		if err := m.Grow(len(out) - had); err != nil {
			return err
		}
		n += b.Len()
		b.Free()
	}
}

// atMost returns the number of elements, but at most n.
func atMost(n int, array []byte) (count int) {
	for range doc.Elements(array) {
		if count++; count == n {
			break
		}
	}
	return count
}

// array returns the text of the array.
func (e *each) array(m *engine.Message) ([]byte, error) {
	if e.bare {
		raw, _, err := m.Document().Raw(e.from)
		if err == nil && doc.Kind(raw) != doc.Array {
			err = e.noArray(doc.Kind(raw))
		}
		return raw, err
	}
	v, err := e.in.Eval(m)
	if err != nil {
		return nil, err
	}
	raw, err := doc.Append(nil, v)
	if err == nil && doc.Kind(raw) != doc.Array {
		err = e.noArray(doc.Kind(raw))
	}
	return raw, err
}

func (e *each) noArray(found doc.ValueKind) error {
	return engine.Errorf(engine.Expression, "%s is %s, not an array (if that is intended, guard the step with `when`)",
		e.in.String(), found)
}

// collect appends the remaining elements. One failed element fails all.
func collect(out []byte, b *engine.Batch) ([]byte, error) {
	for m := range b.Ended() {
		if err := m.Err(); err != nil {
			return nil, fmt.Errorf("element %d: %w", m.Ref, err)
		}
	}
	for m := range b.All() {
		if err := m.Doc().Valid(); err != nil {
			return nil, fmt.Errorf("element %d is not a document after the steps: %w", m.Ref, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, bytes.TrimSpace(m.Bytes())...)
	}
	return out, nil
}
