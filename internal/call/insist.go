package call

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Patience is how long a call of a cache may take that no step waits for.
const Patience = 10 * time.Second

const (
	tries   = 4                      // of a write, before it is given up
	backoff = 100 * time.Millisecond // after the first; it doubles
)

// Insist writes all, in several attempts, for nobody is left who could try again. spread calls its f for 0 to n-1, up to
// width at once. An error of class permanent is final. lost gets what is given up, also from several goroutines, and why.
func Insist[T any](all []T, width int, spread func(n int, f func(i int)), write func(context.Context, T) error,
	lost func(T, error)) {
	for try := 0; len(all) > 0; try++ {
		if try > 0 {
			time.Sleep(backoff << (try - 1))
		}
		all = attempt(all, width, spread, write, func(x T, err error) bool {
			e, ok := errors.AsType[*engine.Error](err)
			if hopeless := ok && e.Class == engine.Permanent; try < tries-1 && !hopeless {
				return true
			}
			lost(x, err)
			return false
		})
	}
}

// attempt writes all once, and gives those whose errors are worth another attempt.
func attempt[T any](all []T, width int, spread func(n int, f func(i int)), write func(context.Context, T) error,
	worth func(T, error) bool) (again []T) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience*time.Duration(1+len(all)/width))
	defer cancel()
	var mu sync.Mutex // guards again
	spread(len(all), func(i int) {
		if err := write(ctx, all[i]); err != nil && worth(all[i], err) {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, all[i])
		}
	})
	return again
}
