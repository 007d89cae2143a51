// Package evaluate evaluates expressions and templates on messages outside of a pipeline, for `flowd eval`. Start at
// [Compile] and [Read]. [Complete] is for its prompt.
package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// Code is a compiled expression or template. It is safe for concurrent use.
type Code struct {
	expr     expr.Expr
	template expr.Template
}

// Compile compiles an expression, or a template. The error is an [*expr.Error].
func Compile(src string, template bool) (c *Code, err error) {
	c = &Code{}
	if template {
		c.template, err = expr.CompileTemplate(src)
	} else {
		c.expr, err = expr.Compile(src)
	}
	return c, err
}

// Warnings are remarks about an expression that is valid but may not do what it looks like.
func (c *Code) Warnings() []*expr.Error { return c.expr.Warnings() }

// IsText reports whether the code is a template, whose values are text.
func (c *Code) IsText() bool { return c.expr.IsZero() }

// On returns the value for a message: the text of a template, or the value of an expression as JSON. Where an expression
// names a part of the document, the value keeps the order of keys and the spelling of numbers.
func (c *Code) On(m *engine.Message) ([]byte, error) {
	if m.Err() != nil {
		return nil, m.Err() // the framing refused it
	}
	if c.IsText() {
		return c.template.Append(nil, m)
	}
	v, err := c.expr.Eval(m)
	if err != nil {
		return nil, err
	}
	if path, ok := c.expr.Path(); ok && v != nil {
		if raw, found, err := m.Document().Raw(path); found && err == nil {
			var b bytes.Buffer
			err = json.Compact(&b, raw)
			return b.Bytes(), err
		}
	}
	return doc.Append(nil, v)
}

// Failure is why a message has no value, as data.
type Failure struct {
	Message string `json:"message"`          // on one line
	Class   string `json:"class"`            // as of a step
	Remedy  string `json:"remedy,omitempty"` // what to write instead
	Offset  *int   `json:"offset,omitempty"` // in the expression, in bytes
}

// FailureOf describes an error of [Code.On].
func FailureOf(err error) Failure {
	f := Failure{Message: err.Error(), Class: string(engine.Decode)}
	var failed *engine.Error
	var wrong *expr.Error
	switch {
	case errors.As(err, &wrong):
		f = Failure{Message: wrong.Msg, Class: string(engine.Expression), Remedy: wrong.Remedy, Offset: &wrong.Offset}
	case errors.As(err, &failed):
		f.Class = string(failed.Class)
	}
	return f
}
