package service

import (
	"maps"
	"math"
	"slices"

	"github.com/flowd-io/flowd/engine"
)

// Latency sums up how long something took. Quantiles are upper bounds, as exact as the buckets in which they are counted.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_seconds"`
	P50   float64 `json:"p50_seconds"`
	P90   float64 `json:"p90_seconds"`
	P99   float64 `json:"p99_seconds"`
}

func latencyOf(h engine.Histogram) Latency {
	return Latency{int64(h.Count), mean(h), quantile(h, 0.5), quantile(h, 0.9), quantile(h, 0.99)}
}

// quantile returns the value that a share q of all observations does not exceed, or 0 if there are none. Within a bucket,
// observations are taken to be spread evenly. Beyond the last bound, it returns that bound.
func quantile(h engine.Histogram, q float64) float64 {
	rank := q * float64(h.Count)
	if h.Count == 0 {
		return 0
	}
	if len(h.Native) > 0 {
		below := 0.0
		for _, i := range slices.Sorted(maps.Keys(h.Native)) {
			if below += float64(h.Native[i]); below >= rank {
				return math.Exp2(float64(i) / (1 << engine.NativeSchema))
			}
		}
	}
	below, from := 0.0, 0.0
	for i, bound := range h.Bounds {
		n := float64(h.Counts[i])
		if below+n >= rank && n > 0 {
			return from + (bound-from)*(rank-below)/n
		}
		below, from = below+n, bound
	}
	return from
}
