package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine/doc"
)

// lentArena is the memory of what was found in the documents of one slab while they got
// their order keys. It goes with them to their lanes, so that these need not look again,
// and is reset when the last of them is done.
type lentArena struct {
	doc.Arena
	users atomic.Int32 // who gives the keys, and slabs
}

var lentArenas = sync.Pool{New: func() any { return new(lentArena) }}

func lend() *lentArena {
	a := lentArenas.Get().(*lentArena)
	a.users.Store(1)
	return a
}

func (a *lentArena) release() {
	if a.users.Add(-1) == 0 {
		a.Reset()
		lentArenas.Put(a)
	}
}

// borrow makes b one of the users of an arena, mostly of the one that it borrowed last.
func (b *Batch) borrow(a *lentArena) {
	for _, have := range slices.Backward(b.lent) {
		if have == a {
			return
		}
	}
	a.users.Add(1)
	b.lent = append(b.lent, a)
}

// giveBack ends the use of arenas, when the documents that needed them are detached
// or dead.
func giveBack(all []*lentArena) {
	for _, a := range all {
		a.release()
	}
}
