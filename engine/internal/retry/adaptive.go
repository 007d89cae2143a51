package retry

import (
	"math"
	"time"
)

// Adaptive computes how many writes may be in flight at once from their latencies, for
// `concurrency: auto`. It is the gradient controller of Envoy's adaptive concurrency
// filter, after Netflix's concurrency-limits: with the mean latency of an idle sink as
// base and that of the last round of writes as now,
//
//	limit = limit × min(1, 1.2 × base/now) + √limit
//
// A sink without a queue therefore gets ever more writes, and a sink with a queue only a few more than
// it works on at once. A failed share f of a round takes f/2 of the limit, as in Data
// Center TCP (RFC 8257). The base is measured at the start, with one write at a time,
// and again every now and then, with a third of the writes.
//
// It has no clock and is not safe for concurrent use.
type Adaptive struct {
	most  float64
	found float64 // the limit, before rounding

	base     float64   // latency of an idle sink in seconds; 0: not known
	measured time.Time // when base was measured, or the first write
	rounds   int       // since measured
	probing  bool

	round
}

// round is a number of writes that began under the same limit.
type round struct {
	began         time.Time
	worked, fails int
	sum           float64 // latencies of those that worked, in seconds
	peak          int     // writes in flight
}

const (
	// autoStart is the limit before anything is known.
	autoStart = 2
	// autoTolerance is how much slower than an idle sink a busy one may be, so that
	// noise alone does not shrink the limit.
	autoTolerance = 1.2
	// autoRound is the least number of writes in a round: the mean of fewer says little.
	autoRound = 16
	// autoFirst is how many writes are measured one by one before the first guess.
	autoFirst = 4
	// autoFaster is how much faster than the base a round must be to become the base:
	// the lowest of many means would be too low.
	autoFaster = 1.5
	// autoFloor is what latencies below count as: they reflect the scheduler, not the sink.
	autoFloor = 100 * time.Microsecond
	// autoProbe and autoProbeRounds are the least time and number of rounds between
	// two probes for the base.
	autoProbe       = 30 * time.Second
	autoProbeRounds = 30
)

// NewAdaptive makes an Adaptive with limits from 1 to most.
func NewAdaptive(most int) *Adaptive {
	most = max(1, most)
	return &Adaptive{most: float64(most), found: float64(min(autoStart, most)), probing: true}
}

// Limit is how many writes may be in flight, at least 1. If more are in flight, none is begun until enough have ended.
func (a *Adaptive) Limit() int {
	if a.probing {
		return max(1, int(a.found/3))
	}
	return int(a.found)
}

// Ended is called for each write that has ended. inFlight is how many writes were in flight, including this one. failed says
// that the sink may be overloaded: it was unreachable, refused everything, or took too long. A write that failed because of
// a message does not count as failed.
func (a *Adaptive) Ended(now time.Time, latency time.Duration, inFlight int, failed bool) {
	if a.measured.IsZero() {
		a.measured = now
		a.round.began = now.Add(-latency)
	}
	if now.Add(-latency).Before(a.round.began) {
		return // it began under another limit
	}
	r := &a.round
	r.peak = max(r.peak, inFlight)
	if failed {
		r.fails++
	} else {
		r.worked++
		r.sum += max(latency, autoFloor).Seconds()
	}
	if r.worked+r.fails < a.enough() {
		return
	}
	if a.probing {
		a.probed(now)
	} else {
		a.adjust(now)
	}
	a.round = round{began: now}
}

// enough is how many writes make a round.
func (a *Adaptive) enough() int {
	if a.base == 0 {
		return autoFirst
	}
	return max(autoRound, 2*a.Limit())
}

// probed makes the latency of the round the base.
func (a *Adaptive) probed(now time.Time) {
	if a.worked > 0 {
		a.base = a.sum / float64(a.worked)
	}
	a.probing, a.measured, a.rounds = false, now, 0
}

// adjust computes the limit after a round.
func (a *Adaptive) adjust(now time.Time) {
	gradient := 1.0
	if a.worked > 0 {
		mean := a.sum / float64(a.worked)
		if a.base == 0 || mean*autoFaster < a.base {
			a.base = mean
		}
		gradient = min(1, autoTolerance*a.base/mean)
	}
	share := float64(a.worked) / float64(a.worked+a.fails)
	found := a.found*gradient*(1+share)/2 + math.Sqrt(a.found)*share
	if a.peak < a.Limit() {
		found = min(found, a.found) // a limit that was not reached has not been tried
	}
	a.found = min(max(found, 1), a.most)
	a.rounds++
	a.probing = a.rounds >= autoProbeRounds && now.Sub(a.measured) >= autoProbe
}
