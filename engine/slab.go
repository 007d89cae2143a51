package engine

import (
	"sync"

	"github.com/flowd-io/flowd/engine/doc"
)

// slabs are recycled when no call can see them any more.
var slabs = sync.Pool{New: func() any {
	return batchOf(Slab{Msgs: make([]Message, 0, slabSize)})
}}

func newSlab(room int) *Batch {
	b := slabs.Get().(*Batch)
	b.unscribble()
	b.in.Room, b.in.Fits = room, readBytes
	return b
}

// batchOf is a batch with what a room puts into it.
func batchOf(s Slab) *Batch {
	b := new(Batch)
	b.in = s
	return b
}

// slabFor is an empty slab for n messages that may wait long: a whole one would keep
// mostly nothing where they are few.
func slabFor(n int) *Batch {
	if 4*n > slabSize {
		return newSlab(0)
	}
	return batchOf(Slab{Msgs: make([]Message, 0, n)})
}

// few is how many messages fit into a batch of which another may be made. Where keys
// are many, most batches hold no more.
const few = 4

// fews are batches of few messages for batchers.
var fews = sync.Pool{New: func() any {
	return batchOf(Slab{Msgs: make([]Message, 0, 1)})
}}

// newFew is an empty batch that mostly gets few messages.
func newFew() *Batch {
	b := fews.Get().(*Batch)
	b.unscribble()
	return b
}

// recycle gives a slab back. One that a batcher made, or that grew, is left to
// the garbage collector.
func recycle(b *Batch) {
	if cap(b.in.Msgs) == slabSize {
		b.putInto(&slabs)
	}
}

// recycleBatch is recycle for a batch of which no message goes on anywhere.
func recycleBatch(b *Batch) {
	if cap(b.in.Msgs) > few {
		recycle(b)
		return
	}
	b.putInto(&fews)
}

func (b *Batch) putInto(pool *sync.Pool) {
	n := len(b.in.Msgs)
	clear(b.in.Msgs)
	b.in = Slab{Msgs: b.in.Msgs[:0]}
	b.scribble(n)
	pool.Put(b)
}

// adopt makes the documents of b take their memory from an arena of the
// goroutine that is going to work on it.
func (b *Batch) adopt(a *doc.Arena) *Batch {
	b.in.Arena = a
	for i := range b.in.Msgs {
		b.in.Msgs[i].in.Doc.Attach(a)
	}
	return b
}

// release is the end of adopt: the edits are spliced, the arena may be reset.
func (b *Batch) release() {
	b.in.Arena = nil
	for i := range b.in.Msgs {
		b.in.Msgs[i].in.Doc.Detach()
	}
}

// compact copies messages out of the blocks in which they were read when most
// of those blocks is dead: was bytes were read with them.
func compact(b *Batch, was int) {
	alive := 0
	for i := range b.in.Msgs {
		alive += b.in.Msgs[i].in.Charge
	}
	b.in.Bytes = alive
	if 2*alive > was || was < 4096 {
		return
	}
	text := make([]byte, 0, alive)
	for i := range b.in.Msgs {
		text = b.in.Msgs[i].in.CopyOut(text)
	}
}
