package call

import (
	"sync"
	"sync/atomic"
)

// Beside calls do for 0 to n-1, at most width at once and one at least, and returns when all calls are over. Calls
// begin in order; a single one is made in the caller's goroutine.
func Beside(width, n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	var begun atomic.Int64
	for range min(max(1, width), n) {
		all.Go(func() {
			for i := int(begun.Add(1)) - 1; i < n; i = int(begun.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}
