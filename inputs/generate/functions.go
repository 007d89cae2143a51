package generate

import (
	"fmt"

	"github.com/flowd-io/flowd/engine/expr"
)

func init() {
	expr.Register(expr.Func{
		Name: "counter", Scope: "generate",
		Doc:   "Number of the message, from 1.",
		Types: []any{new(func() int)},
		Call:  func(s expr.Source, _ ...any) (any, error) { return int(s.(*source).n), nil },
	})
	expr.Register(expr.Func{
		Name: "random", Scope: "generate",
		Doc:   "A number from 0 up to, but not including, 1.",
		Types: []any{new(func() float64)},
		Call:  func(s expr.Source, _ ...any) (any, error) { return s.(*source).rng.Float64(), nil },
	})
	expr.Register(expr.Func{
		Name: "random_int", Scope: "generate",
		Doc:   "A whole number from min to max, both included.",
		Types: []any{new(func(int, int) int)},
		Call:  randomInt,
	})
}

func randomInt(s expr.Source, args ...any) (any, error) {
	low, ok := args[0].(int)
	high, too := args[1].(int)
	if !ok || !too || high < low {
		return nil, fmt.Errorf("random_int(%v, %v): the arguments must be two whole numbers, the smaller first",
			args[0], args[1])
	}
	span := uint64(high-low) + 1
	if span == 0 { // all of int
		return int(s.(*source).rng.Uint64()), nil
	}
	return low + int(s.(*source).rng.Uint64N(span)), nil
}
