// Package call is what components share that call servers or programs: calls side by side ([Each], [Beside]), bodies
// read up to a limit ([ReadAll]), and what the other side said, made safe for errors and logs ([Head], [Tail]).
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
	// Call carries it out, concurrently with others. It uses no message but for [ReadAll]:
	// those of a batch share memory, which one goroutine uses at a time.
	Call(ctx context.Context, c C) error
	// Finish puts the answer into the message.
	Finish(m *engine.Message, c C) error
}

// Each makes a call for each message of b, at most n at once, and returns when all have
// ended. An error fails only the message that it is about. Calls are prepared when there is
// room for them, and prepared and finished in the caller's goroutine.
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
	todo, done := make(chan one), make(chan one, b.Len()) // done has room for all: no call waits to end
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

// guarded is a call whose panic is its message's error: no one else would catch
// it in this goroutine.
func guarded[C any](ctx context.Context, a Asker[C], c C) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = engine.Errorf(engine.Panicked, "panic: %v\n%s", r, debug.Stack())
		}
	}()
	return a.Call(ctx, c)
}
