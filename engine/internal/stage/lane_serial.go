package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/order"
)

// repeats says whether messages of b have a key in common.
func repeats(b *engine.Batch, seen map[string]bool) bool {
	clear(seen)
	for i := range slab(b).Msgs {
		if order.HasOne(&slab(b).Msgs[i], seen) {
			return true
		}
		order.EachLeafKey(&slab(b).Msgs[i], func(leaf *engine.Message) { seen[string(leaf.Key)] = true })
	}
	return false
}

// wave takes the first message of each key out of b. The other messages go through the steps later, and so see what the
// first have written.
func wave(b *engine.Batch, seen map[string]bool) *engine.Batch {
	clear(seen)
	first := flow.Follows(flow.NewSlab(0), b)
	n := 0
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		later := order.HasOne(m, seen)
		order.EachLeafKey(m, func(leaf *engine.Message) { seen[string(leaf.Key)] = true })
		if later {
			slab(b).Msgs[n] = *m
			n++
		} else {
			slab(first).Msgs = append(slab(first).Msgs, *m)
		}
	}
	clear(slab(b).Msgs[n:])
	slab(b).Msgs = slab(b).Msgs[:n]
	slab(first).Bytes = slab(b).Bytes // each part keeps all blocks of b in memory
	return first
}
