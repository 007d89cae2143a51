package source

import (
	"context"

	"github.com/flowd-io/flowd/engine"
)

// Call is a request to a source that goes on when the Read that waits for it has to return. Many sources can't be asked
// to forget a request: what it brings would be lost, or hidden from others for a while. The next Read therefore waits
// for the same request. A Call must not be used by two goroutines at once. The zero Call is ready.
type Call[T any] struct {
	result chan result[T] // nil: no request is under way
	cancel context.CancelFunc
}

type result[T any] struct {
	value T
	err   error
}

// Wait returns the result of the request that is under way. If there is none, it first makes one by do, in another
// goroutine; a panic of do is its error. When ctx ends, Wait returns the error of ctx and the request goes on: only
// Cancel ends the context that do gets, whose values are those of ctx.
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

// Cancel ends the context of the request that is under way, and waits until it has returned. It returns what the request
// has brought all the same; if there is none, the zero T.
func (c *Call[T]) Cancel() (value T, err error) {
	if c.result == nil {
		return value, nil
	}
	c.cancel()
	r := <-c.result
	c.result = nil
	return r.value, r.err
}
