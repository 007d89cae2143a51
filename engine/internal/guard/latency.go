package guard

import (
	"math"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// messageBounds are upper bounds of the time that a message takes, in seconds.
var messageBounds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}

// The buckets of Prometheus' native histograms in schema 3: bucket i is for values above 2^((i-1)/8), up to 2^(i/8). The
// first bucket here is for everything that takes up to 8 µs, the last one for half a year and longer.
const (
	perDoubling = 1 << engine.NativeSchema
	firstNative = -17 * perDoubling
	lastNative  = 24 * perDoubling
)

// Latency counts how long messages take, in groups: the caller locks it, adds each group, and unlocks it. The zero value
// is ready for use.
type Latency struct {
	sync.Mutex // guards the fields below

	counts [15]uint64                           // by messageBounds, and one more
	native [lastNative - firstNative + 1]uint64 // from firstNative
	sum    float64
}

// Add counts n messages that took d. The caller has locked h.
func (h *Latency) Add(d time.Duration, n int) {
	v := max(d, 0).Seconds()
	i := 0
	for i < len(messageBounds) && v > messageBounds[i] {
		i++
	}
	h.counts[i] += uint64(n)
	bucket := firstNative
	if v > 0 {
		bucket = min(max(int(math.Ceil(math.Log2(v)*perDoubling)), firstNative), lastNative)
	}
	h.native[bucket-firstNative] += uint64(n)
	h.sum += v * float64(n)
}

// Set takes over the counts of another histogram.
func (h *Latency) Set(from *Latency) {
	from.Lock()
	counts, native, sum := from.counts, from.native, from.sum
	from.Unlock()
	h.Lock()
	defer h.Unlock()
	h.counts, h.native, h.sum = counts, native, sum
}

// Read returns the present counts.
func (h *Latency) Read() engine.Histogram {
	h.Lock()
	defer h.Unlock()
	r := engine.Histogram{Bounds: messageBounds, Counts: append([]uint64(nil), h.counts[:]...), Sum: h.sum,
		Native: map[int]int64{}}
	for i, n := range h.native {
		if n > 0 {
			r.Native[i+firstNative] = int64(n)
		}
		r.Count += n
	}
	return r
}
