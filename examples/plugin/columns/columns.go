// Package columns is an output that prints fields in columns.
package columns

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Config configures the columns output.
type Config struct {
	Fields []expr.Expr `yaml:"fields" check:"required" doc:"What to print of each message, from left to right."`
}

func init() {
	engine.Register(engine.Outputs, "columns", "Prints fields, with tabs between them.", Config{},
		func(c Config, _ engine.Env) (engine.Output, error) { return &output{c.Fields}, nil })
}

type output struct{ fields []expr.Expr }

// Write prints a batch at once. A message whose fields can't be read fails by
// itself; an error of the whole write fails them all.
func (out *output) Write(_ context.Context, b *engine.Batch) error {
	var text bytes.Buffer
	for m := range b.All() {
		row, err := out.row(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		text.Write(row)
	}
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	return nil
}

func (out *output) row(m *engine.Message) (row []byte, err error) {
	for i := range out.fields {
		if i > 0 {
			row = append(row, '\t')
		}
		if row, err = out.fields[i].AppendBody(row, m); err != nil {
			return nil, err
		}
	}
	return append(row, '\n'), nil
}
