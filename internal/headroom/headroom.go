// Package headroom keeps what the runtime does beside the work of a process small: a heap
// that has room to grow is collected rarely. A program that imports it starts without a
// collection; see [Leave] for one that runs pipelines.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Between two collections the heap may grow by headroom and a quarter of its own size.
// Messages are short-lived and few at a time: of a heap that only doubled there would be
// a hundred collections a second. A large one, full of messages that wait, would grow
// beyond what a machine has for it.
const (
	headroom = 12 << 20 // bytes
	growth   = 25       // percent
)

// Until the first collection every heap may grow by headroom: packages allocate little
// when they are initialised, so a start need not wait until that is collected.
const (
	smallest = 4 << 20 // bytes, from which the runtime reckons the first growth
	first    = 100 * (smallest + headroom) / smallest
	usual    = 100 // percent, as the runtime has it by itself
)

var heap struct {
	mu        sync.Mutex // guards the fields below
	collected bool       // once or more
	left      int        // calls of Leave that are not released
	untouched []byte
}

func init() {
	// Nobody can read heap profiles here, but they are linked with the NATS server, so the
	// runtime would take their samples. A program that serves them sets this in main.
	runtime.MemProfileRate = 0
	if chosen() {
		return
	}
	debug.SetGCPercent(first)
	unreachable := new([16]byte) // large enough to share its memory with no other object
	runtime.AddCleanup(unreachable, func(struct{}) { collected() }, struct{}{})
}

// chosen says whether GOGC or GOMEMLIMIT is set: who sets one has decided otherwise.
func chosen() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// Leave keeps memory until it is released that is never touched, and so takes none of the
// the machine's, but that the collector counts as in use.
func Leave() (release func()) {
	if chosen() {
		return func() {}
	}
	leave(1)
	return sync.OnceFunc(func() { leave(-1) })
}

func leave(n int) {
	heap.mu.Lock()
	defer heap.mu.Unlock()
	heap.left += n
	settle()
}

func collected() {
	heap.mu.Lock()
	defer heap.mu.Unlock()
	heap.collected = true
	settle()
}

// settle sets how far the heap may grow. Before the first collection that is set already,
// and memory that is kept would cause one. heap.mu is held.
func settle() {
	switch {
	case !heap.collected:
	case heap.left == 0:
		heap.untouched = nil
		debug.SetGCPercent(usual)
	case heap.untouched == nil:
		heap.untouched = make([]byte, headroom*100/growth)
		debug.SetGCPercent(growth)
	}
}
