// Package headroom sets how much garbage a process may have between two garbage collections, by what its pipelines may have
// in flight: see [Set].
//
// The live heap is a few MiB as long as outputs keep up. With Go's defaults it is collected whenever it has doubled, which
// is dozens of times a second under load. A heap full of waiting messages, on the other hand, must not grow to several
// times its size. So the heap may grow by a multiple of itself, up to a limit on the memory of the process.
//
// Tables, caches and windows also take memory, and max_in_flight does not bound all of them. A process that needs more than
// its limit would collect garbage all the time, so the limit rises with what a collection leaves in use.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	mostPercent  = 400       // of the live heap, by which it may grow
	leastPercent = 100       // as by default
	mostGarbage  = 256 << 20 // bytes, if all that may be in flight is; with leastPercent it may be more
	leastLimit   = 64 << 20  // bytes of memory that the limit always allows
	beside       = 32 << 20  // bytes beside that heap: stacks, what the runtime itself needs, and some garbage
)

// heap is what [Set] has set.
var heap struct {
	mu      sync.Mutex // guards the fields below
	watched bool       // every collection is followed by a call of adjust
	least   int        // bytes of the limit, unless more are in use
	limit   int        // bytes of the limit as it is
}

// Set sets GOGC and GOMEMLIMIT for a process whose pipelines may together have so many bytes in flight. It does nothing if
// one of these variables is set in the environment. It may be called again, and by several goroutines at once.
func Set(inFlight int) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	inFlight = min(inFlight, 1<<40) // and so is any machine's memory
	heap.mu.Lock()
	defer heap.mu.Unlock()
	debug.SetGCPercent(percent(inFlight))
	heap.least = max(2*inFlight, leastLimit)
	adjust()
	if !heap.watched {
		heap.watched = true
		watch()
	}
}

// percent is by how much of itself the heap may grow until it is collected.
func percent(inFlight int) int {
	return min(max(100*mostGarbage/max(inFlight, 1), leastPercent), mostPercent)
}

// limit is the limit for a process whose last collection has left so many bytes in use.
func limit(least, live int) int { return max(least, live+live/2+beside) }

// watch calls adjust after each collection from now on.
func watch() {
	unreachable := new([16]byte) // large enough to share its memory with no other object
	runtime.AddCleanup(unreachable, func(struct{}) {
		heap.mu.Lock()
		adjust()
		heap.mu.Unlock()
		watch()
	}, struct{}{})
}

// adjust sets the limit if it has changed by more than a little, since that stops the world. heap.mu is held.
func adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	is := limit(heap.least, int(live[0].Value.Uint64()))
	if is == heap.limit || is > heap.least && max(is-heap.limit, heap.limit-is) < heap.limit/8 {
		return
	}
	heap.limit = is
	debug.SetMemoryLimit(int64(is))
}
