package engine

import (
	"errors"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Environment has the values that expressions read with env(), by name: the environment variables that `engine.env` names
// and that are set. Everything that one decoder has decoded shares it; see [schema.Shared]. It is set before any
// expression is evaluated.
type Environment map[string]string

// Counting is a source of values for expressions that numbers its messages, from 1, and has named counters.
type Counting interface {
	expr.Source
	Number() int
	Count(name string) (int, error)
}

// These functions depend on the process, so they are not available in another one: they have a Bind.
func init() {
	expr.Register(expr.Func{Name: "env", Group: "sources", Types: []any{new(func(string) any)}, Usage: "env(text) text|nil",
		Example: `env("REGION") → "eu"`,
		Doc: "An environment variable as text, or nil if it is not set. engine.env names those that expressions may read; they are read " +
			"once, when the file is loaded.",
		Bind: func(d *schema.Decoder) func(expr.Source, ...any) (any, error) {
			if d == nil {
				return func(expr.Source, ...any) (any, error) { return nil, nil }
			}
			env := schema.Shared[Environment](d)
			return func(_ expr.Source, args ...any) (any, error) {
				if v, ok := (*env)[args[0].(string)]; ok {
					return v, nil
				}
				return nil, nil
			}
		}})
	expr.Register(expr.Func{Name: "counter", Group: "sources", Usage: "counter([text]) int",
		Types: []any{new(func() int), new(func(string) int)}, Example: `counter("rows") → 1`,
		Doc: "The next number of a counter of the pipeline, from 1. Counters survive a reload of the configuration, but not a restart of the " +
			"process. In generate, counter() is the number of the message, over all instances of the input.",
		Bind: func(*schema.Decoder) func(expr.Source, ...any) (any, error) { return count }})
}

func count(src expr.Source, args ...any) (any, error) {
	if len(args) > 0 {
		if c, ok := src.(interface{ Count(string) (int, error) }); ok {
			return c.Count(args[0].(string))
		}
	} else if c, ok := src.(Counting); ok {
		return c.Number(), nil
	}
	return nil, errors.New(`only a message can be counted, by a name: counter("orders")`)
}
