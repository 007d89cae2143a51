package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// destination is where messages go next: a batcher, or an output.
type destination interface{ Push(b *engine.Batch) }

// sending is a slab on its way.
type sending struct {
	to destination
	b  *engine.Batch
	of *engine.Batch // the batch that it continues; nil: none
}

// send moves m to the slab for a destination.
func (t *tally) send(to destination, m *engine.Message) {
	t.leave(m)
	t.disown(m)
	t.put(to, m)
}

// put is send without the counting.
func (t *tally) put(to destination, m *engine.Message) {
	for i := range t.onward {
		if s := &t.onward[i]; s.to == to && slab(s.b).Stage == inside.Fresh && len(slab(s.b).Msgs) < cap(slab(s.b).Msgs) {
			slab(s.b).Take(m)
			return
		}
	}
	b := flow.NewSlab(0)
	slab(b).Take(m)
	t.onward = append(t.onward, sending{to: to, b: b})
}

// pass sends a whole slab of live messages.
func (t *tally) pass(to destination, b *engine.Batch) {
	for i := range slab(b).Msgs {
		t.leave(&slab(b).Msgs[i])
		if t.r.plan.Ordered {
			t.disown(&slab(b).Msgs[i])
		}
	}
	t.onward = append(t.onward, sending{to: to, b: b})
}

// goWith sends m on to an output in the batch in which it is, to take up there at
// a stage.
func (t *tally) goWith(to destination, m *engine.Message, at inside.Stage) {
	of := msg(m).Batch
	for i := range t.onward {
		if s := &t.onward[i]; s.to == to && s.of == of && slab(s.b).Stage == at && of != nil {
			slab(s.b).Take(m)
			return
		}
	}
	b := likeOf(of)
	if of == nil {
		b = flow.NewSlab(0)
	}
	slab(b).Stage = at
	slab(b).Take(m)
	t.onward = append(t.onward, sending{to: to, b: b, of: of})
}

// leave counts that m goes beyond the lanes, with what it has become.
func (t *tally) leave(m *engine.Message) {
	msg(m).Doc.Detach()
	t.recharge(m)
	if !t.past {
		t.beyond += flow.Weight(m)
	}
}

// handOver gives the slabs away, when all that they count on is counted. Slabs
// that may wait long keep no mostly dead blocks.
func (t *tally) handOver() {
	for i, s := range t.onward {
		flow.Compact(s.b, t.was)
		s.to.Push(s.b)
		t.onward[i] = sending{}
	}
	t.onward = t.onward[:0]
}

// allLive says that nothing of b has ended or waits.
func allLive(b *engine.Batch) bool {
	for i := range slab(b).Msgs {
		if msg(&slab(b).Msgs[i]).State != inside.Live {
			return false
		}
	}
	return true
}

// sweep leaves only the live messages in b, of which there are alive.
func sweep(b *engine.Batch, alive int) {
	if alive < len(slab(b).Msgs) {
		n := 0
		for i := range slab(b).Msgs {
			if msg(&slab(b).Msgs[i]).State == inside.Live {
				slab(b).Msgs[n] = slab(b).Msgs[i]
				n++
			}
		}
		clear(slab(b).Msgs[n:])
		slab(b).Msgs = slab(b).Msgs[:n]
	}
}
