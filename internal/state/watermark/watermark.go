// Package watermark tracks which positions of a source are settled.
package watermark

import "github.com/flowd-io/flowd/engine"

// Watermark tracks up to which position a source is settled, for files, cursors, topics, and cumulative
// acknowledgements. The caller numbers positions in read order, without gaps. It is not safe for concurrent use.
type Watermark struct {
	low     uint64 // all positions below are settled
	next    uint64 // the next position to read
	settled []bool // ring of the positions from low on
	head    int    // index of low in settled
}

// Read records that n more positions were read, and returns the first one.
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

// Settle settles a position, and reports whether that raised [Watermark.Low].
func (w *Watermark) Settle(position uint64) (raised bool) { return w.SettleAll(position, 1) }

// SettleAll settles n positions from first on, and reports whether that raised [Watermark.Low].
func (w *Watermark) SettleAll(first uint64, n int) (raised bool) {
	first, end := max(first, w.low), min(first+uint64(n), w.next)
	if first >= end {
		return false
	}
	if first > w.low {
		w.mark(first, end, true)
		return false
	}
	w.mark(first, end, false) // clears the entries that low has passed
	w.low, w.head = end, w.at(end)
	for w.low < w.next && w.settled[w.head] {
		w.settled[w.head] = false
		w.low, w.head = w.low+1, w.at(w.low+1)
	}
	return true
}

// at returns the index of a position in the ring.
func (w *Watermark) at(position uint64) int {
	i := w.head + int(position-w.low)
	if i >= len(w.settled) {
		i -= len(w.settled)
	}
	return i
}

// mark sets whether the positions from first on, before end, are settled.
func (w *Watermark) mark(first, end uint64, settled bool) {
	for ; first < end; first++ {
		w.settled[w.at(first)] = settled
	}
}

// Ack settles the positions in results, except for returned messages, and reports whether that raised
// [Watermark.Low].
func (w *Watermark) Ack(results []engine.Result) (raised bool) {
	for i := range results {
		if results[i].Fate != engine.Returned && w.Settle(results[i].Ref) {
			raised = true
		}
	}
	return raised
}

// Low returns the first position that is not settled.
func (w *Watermark) Low() uint64 { return w.low }

// Span returns how many positions there are from the first unsettled to the last read one, or 0 if all are settled.
func (w *Watermark) Span() int { return int(w.next - w.low) }
