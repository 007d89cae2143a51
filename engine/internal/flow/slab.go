package flow

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// slabs are reusable slabs.
var slabs = sync.Pool{New: func() any {
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, inside.SlabSize)})
}}

// bulks are reusable slabs for large writes.
var bulks = sync.Pool{New: func() any {
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, inside.BulkSize)})
}}

// NewSlab returns an empty slab with room for messages that Batch.Add adds.
func NewSlab(room int) *engine.Batch {
	b := slabs.Get().(*engine.Batch)
	unscribble(b)
	slab(b).Room, slab(b).Fits = room, inside.ReadBytes
	return b
}

// NewWrite returns an empty slab for n messages that are written together.
func NewWrite(n int) *engine.Batch {
	if n <= inside.SlabSize {
		return NewSlab(0)
	}
	b := bulks.Get().(*engine.Batch)
	unscribble(b)
	return b
}

// BatchOf returns a batch with an inside.
func BatchOf(s engine.Slab) *engine.Batch {
	b := new(engine.Batch)
	*slab(b) = s
	return b
}

// SlabFor returns an empty slab for n messages that may wait long. For few messages it is a small one, not one of the pool.
func SlabFor(n int) *engine.Batch {
	if 4*n > inside.SlabSize {
		return NewSlab(0)
	}
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, n)})
}

// few is the capacity up to which RecycleBatch reuses batches of batchers. With many keys, most batches are that small.
const few = 4

// fews are reusable small batches.
var fews = sync.Pool{New: func() any {
	return BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, 1)})
}}

// NewFew returns an empty batch that is likely to get few messages.
func NewFew() *engine.Batch {
	b := fews.Get().(*engine.Batch)
	unscribble(b)
	return b
}

// Recycle gives a slab back to its pool. A batch that a batcher has made, or that has grown, is left to the garbage
// collector.
func Recycle(b *engine.Batch) {
	switch cap(slab(b).Msgs) {
	case inside.SlabSize:
		putInto(b, &slabs)
	case inside.BulkSize:
		putInto(b, &bulks)
	}
}

// RecycleBatch gives back a batch of a batcher of which no message continues.
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

// Adopt attaches the documents of b to an arena of the goroutine that is going to work on b. It returns b.
func Adopt(b *engine.Batch, a *doc.Arena) *engine.Batch {
	slab(b).Arena = a
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).Doc.Attach(a)
	}
	return b
}

// Release detaches the documents of b from their arena, which may then be reset.
func Release(b *engine.Batch) {
	slab(b).Arena = nil
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).Doc.Detach()
	}
}

// Compact copies messages out of the blocks with which they were read, if they are less than half of the was bytes of those
// blocks.
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

// Weight is for how many messages m, or the parts of a merge, hold credits.
func Weight(m *engine.Message) int {
	n := int(msg(m).Credits)
	for i := range msg(m).Of {
		n += Weight(&msg(m).Of[i])
	}
	return n
}

// Bytes is how many bytes m keeps in memory: its payload as it was read and as it is now, and its vars.
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

// Keyring is memory for the keys that one goroutine makes.
type Keyring []byte

// keysSize is how many bytes of keys share one allocation. It is small, since one key may keep the memory for long.
const keysSize = 1 << 10

// Room is an empty slice to which the next key is appended. It is overwritten unless Keep keeps the key.
func (k Keyring) Room() []byte { return k[len(k):] }

// Keep keeps a key that was appended to Room, and returns it.
func (k *Keyring) Keep(key []byte) []byte {
	if len(key) > cap(*k)-len(*k) { // append has moved it elsewhere
		if len(key) < keysSize/4 {
			*k = append(make([]byte, 0, keysSize), key...)
			return slices.Clip(*k)
		}
		return key
	}
	*k = (*k)[:len(*k)+len(key)]
	return slices.Clip(key)
}

// Text is like Keep, and returns the key as text without a copy, since kept keys never change.
func (k *Keyring) Text(key []byte) string {
	key = k.Keep(key)
	return unsafe.String(unsafe.SliceData(key), len(key))
}
