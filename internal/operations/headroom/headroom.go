// Package headroom sets how much garbage the heap may collect between two garbage collections, from what the
// process's pipelines may have in flight: see [Set].
//
// The live heap is a few MiB while outputs keep up. Go's defaults collect it whenever it has doubled, which is dozens
// of times a second under load. A heap full of waiting messages, however, must not grow to several times its size. So
// the heap may grow by a multiple of itself, up to a memory limit for the process.
//
// A live heap of a few MiB doubles and halves all the time. If the whole heap followed it, the runtime would return memory to
// the system only to fault it in again. So there is always room for a constant amount of garbage.
//
// Tables, caches and windows take memory, too, and max_in_flight does not bound all of them. A process that needs
// more than its limit would collect garbage all the time, so the limit rises with what a collection leaves in use, up to
// nine tenths of the memory that a container allows: beyond that, the process would be killed.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	leastGarbage = 24 << 20  // bytes, however small the live heap is
	leastHeap    = 4 << 20   // bytes of the live heap below which Go's collector assumes as many
	mostPercent  = 400       // by which the live heap may grow otherwise
	leastPercent = 100       // Go's default
	mostGarbage  = 256 << 20 // bytes, if max_in_flight is used up; with leastPercent it may be more
	leastLimit   = 64 << 20  // bytes of memory that the limit always allows
	beside       = 32 << 20  // bytes besides that heap: stacks, the runtime, and some garbage
	mostInFlight = 1 << 40   // bytes, more than any machine has
)

// heap is the state of [Set].
var heap struct {
	mu      sync.Mutex // guards the fields below
	watched bool       // adjust runs after every collection
	most    int        // GOGC for a live heap that leaves room for enough garbage
	percent int        // current GOGC
	least   int        // bytes of the limit, unless more are in use
	allowed int        // bytes of the limit, whatever is in use: a container allows no more
	limit   int        // current limit in bytes
}

// Set sets GOGC and GOMEMLIMIT for a process whose pipelines may have this many bytes in flight together. It does
// nothing if the environment sets one of these variables. It may be called again, and concurrently.
func Set(inFlight int) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	inFlight = min(inFlight, mostInFlight)
	heap.mu.Lock()
	defer heap.mu.Unlock()
	heap.most, heap.percent = percent(inFlight), 0
	heap.least, heap.allowed = max(2*inFlight, leastLimit), container(root)/10*9
	adjust()
	if !heap.watched {
		heap.watched = true
		watch()
	}
}

// percent returns how much the heap may grow before a collection, in percent.
func percent(inFlight int) int {
	return min(max(100*mostGarbage/max(inFlight, 1), leastPercent), mostPercent)
}

// growth returns GOGC for a live heap of so many bytes.
func growth(most, live int) int {
	return max(most, 100*leastGarbage/max(live, leastHeap))
}

// limit returns the limit for a process whose last collection has left this many bytes in use.
func limit(least, live int) int { return max(least, live+live/2+beside) }

// watch makes adjust run after each collection.
func watch() {
	unreachable := new([16]byte) // too large to share its memory with another object
	runtime.AddCleanup(unreachable, func(struct{}) {
		heap.mu.Lock()
		adjust()
		heap.mu.Unlock()
		watch()
	}, struct{}{})
}

// adjust sets GOGC and the limit, each if it has changed noticeably, since setting it stops the world. heap.mu is held.
func adjust() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	live := int(sample[0].Value.Uint64())
	if is := growth(heap.most, live); max(is-heap.percent, heap.percent-is) > heap.percent/32 {
		heap.percent = is
		debug.SetGCPercent(is)
	}
	is := min(limit(heap.least, live), heap.allowed)
	if is == heap.limit || is > heap.least && is < heap.allowed && max(is-heap.limit, heap.limit-is) < heap.limit/8 {
		return
	}
	heap.limit = is
	debug.SetMemoryLimit(int64(is))
}
