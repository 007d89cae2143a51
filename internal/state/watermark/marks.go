package watermark

import "github.com/flowd-io/flowd/engine"

// Marks maps positions of a source to what they stand for, such as places in a file. It hands marks on in order, each
// once all positions up to it are settled. It is not safe for concurrent use.
type Marks[M any] struct {
	low   Watermark
	marks []M // of the positions from first on
	first uint64
	over  int // how many of them have been handed on
}

// Read records that positions were read which stand for marks. It returns the first of them, counted from 0. already
// reports marks that have no message and count as settled: they are handed on once all marks before them are.
func (w *Marks[M]) Read(marks []M, already func(M) bool, settled func([]M)) (first uint64) {
	first = w.low.Read(len(marks))
	w.marks = append(w.marks, marks...)
	raised := false
	for i, m := range marks {
		if already(m) && w.low.Settle(first+uint64(i)) {
			raised = true
		}
	}
	if raised {
		w.advance(settled)
	}
	return first
}

// Ack settles the positions in results, except for returned messages, and hands on marks.
func (w *Marks[M]) Ack(results []engine.Result, settled func([]M)) {
	if w.low.Ack(results) {
		w.advance(settled)
	}
}

// advance hands on the marks of positions that are settled, with all before them.
func (w *Marks[M]) advance(settled func([]M)) {
	to := int(w.low.Low() - w.first)
	settled(w.marks[w.over:to])
	w.over = to
	if 2*to < len(w.marks) {
		return
	}
	rest := copy(w.marks, w.marks[to:])
	clear(w.marks[rest:])
	w.marks, w.over = w.marks[:rest], 0
	w.first += uint64(to)
}
