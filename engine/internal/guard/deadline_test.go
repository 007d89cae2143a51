package guard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Plugins see the same as with context.WithDeadline, whichever method they call first.
func TestADeadlineIsAContextWithOne(t *testing.T) {
	type key struct{}
	boss := errors.New("the boss says so")
	ways := map[string]func(context.Context) (context.Context, func()){
		"alone":   func(ctx context.Context) (context.Context, func()) { return ctx, func() {} },
		"derived": func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
		"deeper":  func(ctx context.Context) (context.Context, func()) { return context.WithTimeout(ctx, time.Hour) },
		"looked": func(ctx context.Context) (context.Context, func()) {
			return ctx, func() { _ = ctx.Err() }
		},
	}
	ends := map[string]func(call, parent func(error)){
		"time":   func(_, _ func(error)) { time.Sleep(time.Minute) },
		"parent": func(_, parent func(error)) { parent(boss) },
		"call":   func(call, _ func(error)) { call(nil) },
	}
	for how, derive := range ways {
		for what, end := range ends {
			synctest.Test(t, func(t *testing.T) {
				trace := func(begin func(context.Context, time.Time) (context.Context, func())) (seen []any) {
					base, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					defer cancel(nil)
					at := time.Now().Add(time.Minute)
					call, over := begin(base, at)
					defer over()
					ctx, done := derive(call)
					defer done()
					until, ok := ctx.Deadline()
					seen = append(seen, until.Equal(at), ok, ctx.Err(), ctx.Value(key{}))
					end(func(error) { over() }, cancel)
					synctest.Wait()
					seen = append(seen, ctx.Err(), context.Cause(ctx))
					<-ctx.Done()
					return append(seen, ctx.Err(), context.Cause(ctx))
				}
				want := trace(func(ctx context.Context, at time.Time) (context.Context, func()) {
					return context.WithDeadline(ctx, at)
				})
				got := trace(func(ctx context.Context, at time.Time) (context.Context, func()) {
					d := &Deadline{Parent: ctx, At: at}
					return d, d.End
				})
				for i := range want {
					if got[i] != want[i] {
						t.Errorf("%s, ended by %s: answer %d is %v, want %v", how, what, i, got[i], want[i])
					}
				}
			})
		}
	}
}
