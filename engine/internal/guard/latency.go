package guard

import (
	"math"
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

// nativeBounds are the upper bounds of the native buckets from 0.5 up to, not including, 1.
var nativeBounds = func() (bounds [perDoubling]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i)/perDoubling - 1)
	}
	return bounds
}()

// Latency counts how long messages take. The zero value is ready for use. Its users guard it with a lock of their own.
type Latency struct {
	counts [15]uint64                           // by messageBounds, and one more
	native [lastNative - firstNative + 1]uint64 // from firstNative
	sum    float64
}

// Add counts n messages that took d.
func (h *Latency) Add(d time.Duration, n int) {
	v := max(d, 0).Seconds()
	i := 0
	for i < len(messageBounds) && v > messageBounds[i] {
		i++
	}
	h.counts[i] += uint64(n)
	h.native[nativeBucket(v)-firstNative] += uint64(n)
	h.sum += v * float64(n)
}

// nativeBucket returns the native bucket of v seconds. It compares with bounds, since a logarithm takes several times as long.
func nativeBucket(v float64) int {
	fraction, exponent := math.Frexp(v) // v = fraction × 2^exponent, and fraction is from 0.5 up to 1
	i := 0
	for step := perDoubling / 2; step > 0; step /= 2 {
		if fraction > nativeBounds[i+step-1] {
			i += step
		}
	}
	if fraction > nativeBounds[i] {
		i++
	}
	if v <= 0 {
		return firstNative
	}
	return min(max((exponent-1)*perDoubling+i, firstNative), lastNative)
}

// Read returns the present counts.
func (h *Latency) Read() engine.Histogram {
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
