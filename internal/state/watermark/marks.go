package watermark

import "github.com/flowd-io/flowd/engine"

// Marks are what the positions of a source stand for, such as places in a file. They are
// handed on in order, each once all positions up to it are settled. A Marks is not safe for
// concurrent use.
type Marks[M any] struct {
	low   Watermark
	marks []M // of the positions from first on
	first uint64
	over  int // how many marks, the first, have been handed on
}

// Read says that positions were read which stand for marks; the first of them is the next that there was, from 0. Those
// of marks that are settled already, since no message stands for them, are handed on as soon as all before them are.
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

// Ack settles the positions that are Refs of results, but for what was returned, and hands on what that allows.
func (w *Marks[M]) Ack(results []engine.Result, settled func([]M)) {
	if w.low.Ack(results) {
		w.advance(settled)
	}
}

// advance hands on the marks of the positions before which, with themselves, all are settled.
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
