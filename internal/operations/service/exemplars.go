package service

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Exemplars link the latencies of messages to their traces. The zero value is ready for use, and safe for concurrent use. A nil
// Exemplars has none.
type Exemplars struct {
	mu sync.Mutex                             // guards the field below
	of map[string]map[int]prometheus.Exemplar // by pipeline and power of two
}

// The range of latencies that are told apart, so that a pipeline has 33 exemplars at most.
const (
	shortest     = time.Microsecond
	longestPower = 12 // of two, in seconds: more than an hour
)

// Observe records how long a message took from its input to its end, and its trace and span, in hexadecimal. It keeps the latest
// message of each power of two.
func (x *Exemplars) Observe(pipeline string, took time.Duration, trace, span string) {
	v := max(took, shortest).Seconds()
	e := prometheus.Exemplar{Value: v, Timestamp: time.Now(), Labels: prometheus.Labels{"trace_id": trace, "span_id": span}}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[string]map[int]prometheus.Exemplar{}
	}
	if x.of[pipeline] == nil {
		x.of[pipeline] = map[int]prometheus.Exemplar{}
	}
	x.of[pipeline][min(int(math.Floor(math.Log2(v))), longestPower)] = e
}

// get returns the exemplars of a pipeline. If several belong to one bucket of a histogram, the last one is the latest.
func (x *Exemplars) get(pipeline string) []prometheus.Exemplar {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.of[pipeline]), func(a, b prometheus.Exemplar) int { return a.Timestamp.Compare(b.Timestamp) })
}
