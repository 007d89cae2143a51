package ledger

import (
	"sync"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// block is memory for the roots of one Read, which are used again once their source knows how they ended.
type block [inside.SlabSize]RootState

var blocks = sync.Pool{New: func() any {
	b := new(block)
	scribble(b)
	return b
}}

// Begin gives l n roots of one piece each, none of which has ended.
func (l *Ledger) Begin(n int) {
	l.Open.Store(int32(n))
	if n > inside.SlabSize || 4*n < inside.SlabSize { // a block would keep mostly nothing
		l.Roots = make([]RootState, n)
		return
	}
	b := blocks.Get().(*block)
	unscribble(b)
	clear(b[:])
	l.Roots = b[:n]
}

// Pin keeps the roots of l from being used again: somebody who should not may still look at them, such as a call
// that was given up.
func (l *Ledger) Pin() { l.pinned.Store(true) }

// Recycle gives the memory of the roots back: all have ended, and nobody has a piece of them any more.
func (l *Ledger) Recycle() {
	if cap(l.Roots) != inside.SlabSize || l.pinned.Swap(true) {
		return
	}
	b := (*block)(l.Roots[:inside.SlabSize])
	scribble(b)
	blocks.Put(b)
}
