package main

import (
	"slices"
	"time"
)

// sample is the result of one run of one contestant.
type sample struct {
	Messages int           `json:"messages"`
	Bytes    int64         `json:"bytes,omitempty"` // of input
	Wall     time.Duration `json:"wall_ns"`
	CPU      time.Duration `json:"cpu_ns"`
	Peak     int64         `json:"peak_bytes"`
	Allocs   float64       `json:"allocs_per_message,omitempty"`
	Load     float64       `json:"load_per_second,omitempty"` // messages sent by schedule
	P50      time.Duration `json:"p50_ns,omitempty"`
	P99      time.Duration `json:"p99_ns,omitempty"`
	P999     time.Duration `json:"p999_ns,omitempty"`
}

// metric computes a figure from a sample.
type metric struct {
	name  string
	unit  string
	lower bool // lower is better
	value func(sample) float64
}

var (
	rate = metric{"rate", "k/s", false, func(s sample) float64 {
		return per(float64(s.Messages), s.Wall.Seconds()) / 1e3
	}}
	speed = metric{"speed", "MB/s", false, func(s sample) float64 {
		return per(float64(s.Bytes), s.Wall.Seconds()) / 1e6
	}}
	cpu = metric{"CPU", "s/M", true, func(s sample) float64 {
		return per(s.CPU.Seconds(), float64(s.Messages)) * 1e6
	}}
	peak = metric{"peak", "MiB", true, func(s sample) float64 { return float64(s.Peak) / (1 << 20) }}
	wall = metric{"time", "ms", true, func(s sample) float64 { return ms(s.Wall) }}
	tax  = metric{"tax", "ns", true, func(s sample) float64 {
		return per(float64(s.CPU.Nanoseconds()), float64(s.Messages))
	}}
	p50   = metric{"p50", "ms", true, func(s sample) float64 { return ms(s.P50) }}
	p99   = metric{"p99", "ms", true, func(s sample) float64 { return ms(s.P99) }}
	p999  = metric{"p99.9", "ms", true, func(s sample) float64 { return ms(s.P999) }}
	alloc = metric{"allocs", "/message", true, func(s sample) float64 { return s.Allocs }}
)

func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// median returns the median of the metric over all rounds.
func (m metric) median(all []sample) float64 {
	figures := make([]float64, len(all))
	for i, s := range all {
		figures[i] = m.value(s)
	}
	return median(figures)
}

// ratio returns how many times better a is than b. It is the median of the ratios of each
// round, since the machine may change between rounds.
func (m metric) ratio(a, b []sample) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		x, y := m.value(a[i]), m.value(b[i])
		if m.lower {
			x, y = y, x
		}
		if x > 0 && y > 0 {
			ratios = append(ratios, x/y)
		}
	}
	return median(ratios)
}

// quantiles sorts latencies and sets their p50, p99 and p99.9.
func (s *sample) quantiles(all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[min(int(q*float64(len(all))), len(all)-1)] }
	s.P50, s.P99, s.P999 = at(.5), at(.99), at(.999)
}
