package ledger

import (
	"sync"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// block is reusable memory for the roots of one Read.
type block [inside.SlabSize]RootState

var blocks = sync.Pool{New: func() any {
	b := new(block)
	scribble(b)
	return b
}}

// Begin gives l n roots that have not ended, of one piece each.
func (l *Ledger) Begin(n int) {
	l.Open.Store(int32(n))
	if n > inside.SlabSize || 4*n < inside.SlabSize { // a block would be mostly empty
		l.Roots = make([]RootState, n)
		return
	}
	b := blocks.Get().(*block)
	unscribble(b)
	clear(b[:])
	l.Roots = b[:n]
}

// Pin keeps the roots of l from being reused, since code without a piece may still read them, such as a call that was
// abandoned.
func (l *Ledger) Pin() { l.pinned.Store(true) }

// Recycle reuses the memory of the roots of l. All have ended, and nobody has a piece of them.
func (l *Ledger) Recycle() {
	if cap(l.Roots) != inside.SlabSize || l.pinned.Swap(true) {
		return
	}
	b := (*block)(l.Roots[:inside.SlabSize])
	scribble(b)
	blocks.Put(b)
}
