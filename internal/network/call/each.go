// Package call is shared by components that call servers or programs: concurrent calls ([Each], [Beside]), bodies
// read up to a limit ([ReadAll]), and quotes of the other side made safe for errors and logs ([Head], [Tail]).
package call

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/flowd-io/flowd/engine"
)

// Asker makes calls for messages; C is one call and its answer.
type Asker[C any] interface {
	// Prepare makes the call for a message.
	Prepare(m *engine.Message) (C, error)
	// Call makes the call, concurrently with others. It must not use messages except with [ReadAll]: those of a batch
	// share memory that only one goroutine may use at a time.
	Call(ctx context.Context, c C) error
	// Finish stores the answer in the message.
	Finish(m *engine.Message, c C) error
}

// Each makes a call for each message of b, at most n at once, and returns when all have ended. An error fails only
// its own message. Calls are prepared when there is room, and are prepared and finished in the caller's goroutine.
func Each[C any](ctx context.Context, b *engine.Batch, n int, a Asker[C]) {
	type one struct {
		m   *engine.Message
		c   C
		err error
	}
	finish := func(o one) {
		if o.err == nil {
			o.err = a.Finish(o.m, o.c)
		}
		if o.err != nil {
			o.m.Fail(o.err)
		}
	}
	n = min(n, b.Len())
	todo, done := make(chan one), make(chan one, b.Len()) // room for all, so that no call blocks at its end
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(todo)
	if n > 1 {
		for range n {
			calls.Go(func() {
				for o := range todo {
					o.err = guarded(ctx, a, o.c)
					done <- o
				}
			})
		}
	}
	open := 0
	for m := range b.All() {
		c, err := a.Prepare(m)
		o := one{m, c, err}
		if err == nil && n == 1 {
			o.err = guarded(ctx, a, c)
		}
		if err != nil || n == 1 {
			finish(o)
			continue
		}
		for open == n {
			finish(<-done)
			open--
		}
		todo <- o
		open++
	}
	for ; open > 0; open-- {
		finish(<-done)
	}
}

// guarded makes a call and turns a panic into an error of its message: nothing else in this goroutine would recover
// it.
func guarded[C any](ctx context.Context, a Asker[C], c C) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = engine.Errorf(engine.Panicked, "panic: %v\n%s", r, debug.Stack())
		}
	}()
	return a.Call(ctx, c)
}
