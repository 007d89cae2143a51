package source

import (
	"context"

	"github.com/flowd-io/flowd/engine"
)

// Call is a request to a source that continues when the Read that waits for it must return. Many sources can't cancel a
// request: the messages that it brings would be lost, or hidden from other readers for a while. The next Read therefore
// waits for the same request. Only one goroutine at a time may use a Call. The zero Call is ready.
type Call[T any] struct {
	result chan result[T] // nil: no request is under way
	cancel context.CancelFunc
}

type result[T any] struct {
	value T
	err   error
}

// Wait returns the result of the request under way. If there is none, it first starts one: it calls do in another goroutine.
// A panic of do is its error. When ctx ends, Wait returns the error of ctx and the request continues. The context of do has
// the values of ctx, but only Cancel ends it.
func (c *Call[T]) Wait(ctx context.Context, do func(ctx context.Context) (T, error)) (value T, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	if c.result == nil {
		c.begin(ctx, do)
	}
	select {
	case r := <-c.result:
		c.result = nil
		return r.value, r.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (c *Call[T]) begin(ctx context.Context, do func(ctx context.Context) (T, error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan result[T], 1)
	c.result, c.cancel = done, cancel
	go func() {
		var r result[T]
		defer func() { done <- r }()
		defer cancel()
		defer engine.Recovered(&r.err)
		r.value, r.err = do(ctx)
	}()
}

// Running reports whether a request is under way.
func (c *Call[T]) Running() bool { return c.result != nil }

// Cancel ends the context of the request under way, waits until do has returned, and returns its result. If no request is
// under way, it returns zero values.
func (c *Call[T]) Cancel() (value T, err error) {
	if c.result == nil {
		return value, nil
	}
	c.cancel()
	r := <-c.result
	c.result = nil
	return r.value, r.err
}
