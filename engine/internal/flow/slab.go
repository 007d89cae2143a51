package flow

import (
	"sync"

	"slices"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// slabs are recycled when no call can see them any more.
var slabs = sync.Pool{New: func() any {
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, inside.SlabSize)})
}}

// bulks are for writes of many messages.
var bulks = sync.Pool{New: func() any {
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, inside.BulkSize)})
}}

// NewSlab is an empty slab to which room messages may be added.
func NewSlab(room int) *engine.Batch {
	b := slabs.Get().(*engine.Batch)
	unscribble(b)
	slab(b).Room, slab(b).Fits = room, inside.ReadBytes
	return b
}

// NewWrite is an empty slab for n messages that are written together.
func NewWrite(n int) *engine.Batch {
	if n <= inside.SlabSize {
		return NewSlab(0)
	}
	b := bulks.Get().(*engine.Batch)
	unscribble(b)
	return b
}

// BatchOf is a batch with what a room puts into it.
func BatchOf(s engine.Slab) *engine.Batch {
	b := new(engine.Batch)
	*slab(b) = s
	return b
}

// SlabFor is an empty slab for n messages that may wait long: a whole one would keep
// mostly nothing where they are few.
func SlabFor(n int) *engine.Batch {
	if 4*n > inside.SlabSize {
		return NewSlab(0)
	}
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, n)})
}

// few is how many messages fit into a batch of which another may be made. Where keys
// are many, most batches hold no more.
const few = 4

// fews are batches of few messages for batchers.
var fews = sync.Pool{New: func() any {
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, 1)})
}}

// NewFew is an empty batch that mostly gets few messages.
func NewFew() *engine.Batch {
	b := fews.Get().(*engine.Batch)
	unscribble(b)
	return b
}

// Recycle gives a slab back. One that a batcher made, or that grew, is left to
// the garbage collector.
func Recycle(b *engine.Batch) {
	switch cap(slab(b).Msgs) {
	case inside.SlabSize:
		putInto(b, &slabs)
	case inside.BulkSize:
		putInto(b, &bulks)
	}
}

// RecycleBatch is recycle for a batch of which no message continues anywhere.
func RecycleBatch(b *engine.Batch) {
	if cap(slab(b).Msgs) > few {
		Recycle(b)
		return
	}
	putInto(b, &fews)
}

func putInto(b *engine.Batch, pool *sync.Pool) {
	n := len(slab(b).Msgs)
	clear(slab(b).Msgs)
	*slab(b) = engine.Slab{Msgs: slab(b).Msgs[:0]}
	scribble(b, n)
	pool.Put(b)
}

// Adopt makes the documents of b take their memory from an arena of the
// goroutine that is going to work on it.
func Adopt(b *engine.Batch, a *doc.Arena) *engine.Batch {
	slab(b).Arena = a
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).Doc.Attach(a)
	}
	return b
}

// Release is the end of adopt: the edits are spliced, the arena may be reset.
func Release(b *engine.Batch) {
	slab(b).Arena = nil
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).Doc.Detach()
	}
}

// Compact copies messages out of the blocks in which they were read when most
// of those blocks is dead: was bytes were read with them.
func Compact(b *engine.Batch, was int) {
	alive := 0
	for i := range slab(b).Msgs {
		alive += msg(&slab(b).Msgs[i]).Charge
	}
	slab(b).Bytes = alive
	if 2*alive > was || was < 4096 {
		return
	}
	text := make([]byte, 0, alive)
	for i := range slab(b).Msgs {
		text = msg(&slab(b).Msgs[i]).CopyOut(text)
	}
}

// Weight is how many messages of credit m holds, with the parts of a merge.
func Weight(m *engine.Message) int {
	n := int(msg(m).Credits)
	for i := range msg(m).Of {
		n += Weight(&msg(m).Of[i])
	}
	return n
}

// Bytes is what m keeps in memory: the payload as it was read, and as it is, and vars.
func Bytes(m *engine.Message) int {
	if msg(m).Rare == nil {
		return payloads(m)
	}
	return payloads(m) + m.Vars().Size()
}

func payloads(m *engine.Message) int {
	n, body := len(msg(m).Orig), msg(m).Doc.Payload()
	w := msg(m).Doc.Weight()
	if w == len(body) && w == n && (n == 0 || &body[0] == &msg(m).Orig[0]) {
		return n
	}
	return n + w
}

// Keyring is memory for keys, of which one goroutine makes many.
type Keyring []byte

// keysSize is how many bytes of keys are kept together: few, since one may stay long.
const keysSize = 1 << 10

// Room is where the next key may be appended, to be kept or forgotten.
func (k Keyring) Room() []byte { return k[len(k):] }

// Keep makes a key that was appended to room permanent.
func (k *Keyring) Keep(key []byte) []byte {
	if len(key) > cap(*k)-len(*k) { // it is elsewhere
		if len(key) < keysSize/4 {
			*k = append(make([]byte, 0, keysSize), key...)
			return slices.Clip(*k)
		}
		return key
	}
	*k = (*k)[:len(*k)+len(key)]
	return slices.Clip(key)
}

// Text is keep for a key that is asked for as text: what is kept never changes.
func (k *Keyring) Text(key []byte) string {
	key = k.Keep(key)
	return unsafe.String(unsafe.SliceData(key), len(key))
}
