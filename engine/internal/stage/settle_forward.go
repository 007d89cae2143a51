package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// destination is where messages go next: a batcher, or an output.
type destination interface{ Push(b *engine.Batch) }

// sending is a slab that is to be pushed to a destination.
type sending struct {
	to destination
	b  *engine.Batch
	of *engine.Batch // the batch that its messages were in; nil: none
}

// send moves m to the slab for a destination.
func (out *outcome) send(to destination, m *engine.Message) {
	out.leaveLanes(m)
	out.releaseKeys(m)
	out.put(to, m)
}

// put moves m to the slab for a destination. It counts nothing.
func (out *outcome) put(to destination, m *engine.Message) {
	for i := range out.onward {
		if s := &out.onward[i]; s.to == to && slab(s.b).Stage == inside.Fresh &&
			len(slab(s.b).Msgs) < cap(slab(s.b).Msgs) {
			slab(s.b).Take(m)
			return
		}
	}
	b := flow.NewSlab(0)
	slab(b).Take(m)
	out.onward = append(out.onward, sending{to: to, b: b})
}

// sendAll sends a whole slab of live messages.
func (out *outcome) sendAll(to destination, b *engine.Batch) {
	for i := range slab(b).Msgs {
		out.leaveLanes(&slab(b).Msgs[i])
		if out.layout.Ordered {
			out.releaseKeys(&slab(b).Msgs[i])
		}
	}
	out.onward = append(out.onward, sending{to: to, b: b})
}

// sendWithBatch sends m to an output together with other messages of its batch. They resume there at a stage.
func (out *outcome) sendWithBatch(to destination, m *engine.Message, at inside.Stage) {
	of := msg(m).Batch
	for i := range out.onward {
		if s := &out.onward[i]; s.to == to && s.of == of && slab(s.b).Stage == at && of != nil {
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
	out.onward = append(out.onward, sending{to: to, b: b, of: of})
}

// leaveLanes counts that m goes beyond the lanes, with what it has become.
func (out *outcome) leaveLanes(m *engine.Message) {
	msg(m).Doc.Detach()
	out.recharge(m)
	if !out.beyondLanes {
		out.beyond += flow.Weight(m)
	}
}

// push sends the slabs on, once everything is counted. A slab may wait long: it is compacted, so that it does not keep read
// blocks of which most is no longer needed.
func (out *outcome) push() {
	for i, s := range out.onward {
		flow.Compact(s.b, out.read)
		s.to.Push(s.b)
		out.onward[i] = sending{}
	}
	out.onward = out.onward[:0]
}

// allLive says whether no message of b has ended or waits.
func allLive(b *engine.Batch) bool {
	for i := range slab(b).Msgs {
		if msg(&slab(b).Msgs[i]).State != inside.Live {
			return false
		}
	}
	return true
}

// away says whether a message of b waits for another attempt or is parked.
func away(b *engine.Batch) bool {
	for i := range slab(b).Msgs {
		if s := msg(&slab(b).Msgs[i]).State; s == inside.Waits || s == inside.Parked {
			return true
		}
	}
	return false
}

// sweep removes all but the live messages from b; alive is their number.
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
