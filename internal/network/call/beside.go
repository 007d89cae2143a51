package call

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Beside calls do for 0 to n-1, at most width at once and one at least, and returns when all calls are over. Calls
// begin in order; a single one is made in the caller's goroutine. If a call panics, no more calls begin, and Beside
// panics in the caller's goroutine, where the engine makes an error of it.
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
