// Package headroom keeps what the runtime does beside the work of a process small: a heap
// that has room to grow is collected rarely. A program that imports it starts without a
// collection; see [Leave] and [Started] for one that runs pipelines.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Between two collections the heap may grow by headroom and a quarter of its own size.
// Messages are short-lived and few at a time: of a heap that only doubled there would be
// a hundred collections a second. A large one, full of messages that wait, would grow
// beyond what a machine has for it.
const (
	headroom = 12 << 20 // bytes
	growth   = 25       // percent

	untouched = headroom * 100 / growth // bytes that make the heap grow by headroom
)

// Where collections take more than their part of the work all the same, as where whole batches of records are unpacked,
// the heap may grow by up to three times the headroom, whatever its size.
const (
	mostTimes = 3
	most      = 0.12 // of what is done is collection, or the heap grows more
	least     = 0.03 // of what is done is collection, or the heap grows less
	middle    = (most + least) / 2
	recent    = 5 // collections, about, that this is the mean of
)

// blocksTimes is how many times the headroom the heap may grow by at least where blocks are unpacked: see [Blocks].
// Most of what such a source costs beside the unpacking is collection, and the writing of pointers while one runs,
// which is not counted as such.
const blocksTimes = 4

// Until the first collection every heap may grow by headroom: packages allocate little
// when they are initialised, so a start need not wait until that is collected.
const (
	smallest = 4 << 20 // bytes, from which the runtime reckons the first growth
	first    = 100 * (smallest + headroom) / smallest
	usual    = 100 // percent, as the runtime has it by itself
)

// settling is how long the first message has, which is not to wait for pages; the heap grows to its size later.
const settling = 10 * time.Millisecond

var heap state

type state struct {
	mu        sync.Mutex // guards the fields below
	collected bool       // once or more
	left      int        // calls of Leave that are not released
	blocks    int        // of Blocks, too
	done      work       // until the last collection
	part      float64    // of what is done that is collection
	times     int        // the headroom, by which the heap may grow
	percent   int        // by which the runtime lets it grow, with what is untouched
	untouched []byte
}

// factor is by how many times the headroom the heap may grow; s.mu is held.
func (s *state) factor() int {
	if s.blocks > 0 {
		return max(s.times, blocksTimes)
	}
	return s.times
}

func init() {
	// Nobody can read heap profiles here, but they are linked with the NATS server, so the
	// runtime would take their samples. A program that serves them sets this in main.
	runtime.MemProfileRate = 0
	if chosen() {
		return
	}
	debug.SetGCPercent(first)
	heap.times, heap.percent, heap.part = 1, growth, middle
	watch()
}

// watch has collected called after the next collection.
func watch() {
	unreachable := new([16]byte) // large enough to share its memory with no other object
	runtime.AddCleanup(unreachable, func(struct{}) {
		collected(measure())
		watch()
	}, struct{}{})
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

// Blocks is for a source that gets its messages in blocks, each of which is unpacked at once and is garbage soon after,
// as a whole: until it is released the heap grows more between collections, if [Leave] was called as well.
func Blocks() (release func()) {
	if chosen() {
		return func() {}
	}
	unpacks(1)
	return sync.OnceFunc(func() { unpacks(-1) })
}

// Started is for a process that has started what it runs, at first or anew: soon after, it gives back the pages of the
// program's file that only the start needed. Initialising what is linked touches more of them than running a pipeline.
func Started() { time.AfterFunc(settling, unmap) }

func unpacks(n int) {
	heap.mu.Lock()
	defer heap.mu.Unlock()
	heap.blocks += n
	heap.percent = percent(heap.factor(), heap.done.live)
	settle()
}

func collected(done work) {
	heap.mu.Lock()
	defer heap.mu.Unlock()
	if own, collecting := done.own-heap.done.own, done.collecting-heap.done.collecting; heap.collected && own > 0 {
		heap.times, heap.part = next(heap.times, heap.part, collecting/(own+collecting))
	}
	was := heap.percent
	heap.percent = percent(heap.factor(), done.live)
	if heap.done = done; !heap.collected || max(heap.percent-was, was-heap.percent) > 2 {
		heap.collected = true
		settle()
	}
}

// work is what a process has done, in seconds of a processor, and how large the heap was then.
type work struct {
	own, collecting float64
	live            int // bytes, with those that are untouched
}

// measure is what was done until the last collection, as the runtime estimates it.
func measure() work {
	s := []metrics.Sample{{Name: "/cpu/classes/user:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/pause:cpu-seconds"},
		{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return work{s[0].Value.Float64(), s[1].Value.Float64() + s[2].Value.Float64() + s[3].Value.Float64(),
		int(s[4].Value.Uint64())}
}

// next is how many times the headroom the heap may grow by after one more collection, and what part of all that is done
// they are, given both before, and now.
func next(times int, part, now float64) (int, float64) {
	part += (now - part) / recent
	switch {
	case part > most:
		return min(2*times, mostTimes), middle
	case part < least:
		return max(times/2, 1), middle
	}
	return times, part
}

// percent is how a heap grows by so many times the headroom, or by one headroom and a part of its own size if that is
// more. live are its bytes, with those that are untouched.
func percent(times, live int) int {
	if own := live - untouched; own > 0 {
		return 100 * max(times*headroom, headroom+growth*own/100) / live
	}
	return times * growth
}

// settle sets how far the heap may grow. Before the first collection that is set already,
// and memory that is kept would cause one. heap.mu is held.
func settle() {
	switch {
	case !heap.collected:
	case heap.left == 0:
		heap.untouched = nil
		debug.SetGCPercent(usual)
	default:
		if heap.untouched == nil {
			heap.untouched = make([]byte, untouched)
		}
		debug.SetGCPercent(heap.percent)
	}
}
