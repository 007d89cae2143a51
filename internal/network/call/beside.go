package call

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Beside calls do for 0 to n-1, at most width (and at least one) at once, and returns when all calls are over. Calls
// begin in order. A single call runs in the caller's goroutine. If a call panics, no more calls begin, and Beside
// panics in the caller's goroutine, where the engine turns it into an error.
func Beside(width, n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	var begun atomic.Int64
	var panicked atomic.Pointer[string]
	for range min(max(1, width), n) {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					text := fmt.Sprintf("%v\n%s", p, debug.Stack())
					panicked.Store(&text)
					begun.Store(int64(n))
				}
			}()
			for i := int(begun.Add(1)) - 1; i < n; i = int(begun.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text)
	}
}
