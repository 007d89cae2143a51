package engine

// destination is where messages go next: a batcher, or an output.
type destination interface{ push(b *Batch) }

// sending is a slab on its way.
type sending struct {
	to destination
	b  *Batch
	of *Batch // the batch that it continues; nil: none
}

// send moves m to the slab for a destination.
func (t *tally) send(to destination, m *Message) {
	t.leave(m)
	t.disown(m)
	t.put(to, m)
}

// put is send without the counting.
func (t *tally) put(to destination, m *Message) {
	for i := range t.onward {
		if s := &t.onward[i]; s.to == to && s.b.in.Stage == fresh && len(s.b.in.Msgs) < cap(s.b.in.Msgs) {
			s.b.in.Take(m)
			return
		}
	}
	b := newSlab(0)
	b.in.Take(m)
	t.onward = append(t.onward, sending{to: to, b: b})
}

// pass sends a whole slab of live messages.
func (t *tally) pass(to destination, b *Batch) {
	for i := range b.in.Msgs {
		t.leave(&b.in.Msgs[i])
		if t.r.plan.ordered {
			t.disown(&b.in.Msgs[i])
		}
	}
	t.onward = append(t.onward, sending{to: to, b: b})
}

// allLive says that nothing of b has ended or waits.
func (b *Batch) allLive() bool {
	for i := range b.in.Msgs {
		if b.in.Msgs[i].in.State != live {
			return false
		}
	}
	return true
}

// sweep leaves only the live messages in b, of which there are alive.
func (b *Batch) sweep(alive int) {
	if alive < len(b.in.Msgs) {
		n := 0
		for i := range b.in.Msgs {
			if b.in.Msgs[i].in.State == live {
				b.in.Msgs[n] = b.in.Msgs[i]
				n++
			}
		}
		clear(b.in.Msgs[n:])
		b.in.Msgs = b.in.Msgs[:n]
	}
}

// leave counts that m goes beyond the lanes, with what it has become.
func (t *tally) leave(m *Message) {
	m.in.Doc.Detach()
	t.recharge(m)
	if !t.past {
		t.beyond += m.weight()
	}
}

// handOver gives the slabs away, when all that they count on is counted. Slabs
// that may wait long keep no mostly dead blocks.
func (t *tally) handOver() {
	for i, s := range t.onward {
		compact(s.b, t.was)
		s.to.push(s.b)
		t.onward[i] = sending{}
	}
	t.onward = t.onward[:0]
}
