// Package watermark follows which positions of a source are settled.
package watermark

import "github.com/flowd-io/flowd/engine"

// Watermark follows which positions of a source are settled up to where: files,
// cursors, topics, and acknowledgements of many at once go by it. Positions are
// numbered by the caller, in read order, without gaps. It is not safe for
// concurrent use.
type Watermark struct {
	low     uint64 // all below are settled
	next    uint64 // the next position to be read
	settled []bool // of the positions from low on, a ring
	head    int    // of low in settled
}

// Read says that n more positions have been read and returns the first of them.
func (w *Watermark) Read(n int) (first uint64) {
	first = w.next
	w.next += uint64(n)
	if need := w.Span(); need > len(w.settled) {
		ring := make([]bool, max(2*len(w.settled), need, 64))
		for i := range int(first - w.low) {
			ring[i] = w.settled[w.at(w.low+uint64(i))]
		}
		w.settled, w.head = ring, 0
	}
	return first
}

// Settle says that a position is settled, and whether that raised [Watermark.Low].
func (w *Watermark) Settle(position uint64) (raised bool) { return w.SettleAll(position, 1) }

// SettleAll says that n positions from first on are settled, and whether that raised [Watermark.Low].
func (w *Watermark) SettleAll(first uint64, n int) (raised bool) {
	first, end := max(first, w.low), min(first+uint64(n), w.next)
	if first >= end {
		return false
	}
	if first > w.low {
		w.mark(first, end, true)
		return false
	}
	w.mark(first, end, false) // it has passed them
	w.low, w.head = end, w.at(end)
	for w.low < w.next && w.settled[w.head] {
		w.settled[w.head] = false
		w.low, w.head = w.low+1, w.at(w.low+1)
	}
	return true
}

// at returns where a position is in the ring.
func (w *Watermark) at(position uint64) int {
	i := w.head + int(position-w.low)
	if i >= len(w.settled) {
		i -= len(w.settled)
	}
	return i
}

// mark says of the positions from first on, before end, whether they are settled.
func (w *Watermark) mark(first, end uint64, settled bool) {
	for ; first < end; first++ {
		w.settled[w.at(first)] = settled
	}
}

// Ack settles the positions that are Refs of results, but for what was returned, and says whether that raised
// [Watermark.Low].
func (w *Watermark) Ack(results []engine.Result) (raised bool) {
	for i := range results {
		if results[i].Fate != engine.Returned && w.Settle(results[i].Ref) {
			raised = true
		}
	}
	return raised
}

// Low returns the first position that is not settled: all before it are.
func (w *Watermark) Low() uint64 { return w.low }

// Span returns how many positions lie between the first unsettled and the last read,
// both included; 0 when all are settled.
func (w *Watermark) Span() int { return int(w.next - w.low) }
