package engine

// repeats says whether messages of b have a key in common.
func (b *Batch) repeats(seen map[string]bool) bool {
	clear(seen)
	for i := range b.in.Msgs {
		if b.in.Msgs[i].hasOne(seen) {
			return true
		}
		b.in.Msgs[i].eachLeafKey(func(leaf *Message) { seen[string(leaf.Key)] = true })
	}
	return false
}

// wave takes out of a run the first message of each key. What is left goes through the
// steps when those have, so that it sees what they have written.
func (b *Batch) wave(seen map[string]bool) *Batch {
	clear(seen)
	first := newSlab(0).follows(b)
	n := 0
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		later := m.hasOne(seen)
		m.eachLeafKey(func(leaf *Message) { seen[string(leaf.Key)] = true })
		if later {
			b.in.Msgs[n] = *m
			n++
		} else {
			first.in.Msgs = append(first.in.Msgs, *m)
		}
	}
	clear(b.in.Msgs[n:])
	b.in.Msgs = b.in.Msgs[:n]
	first.in.Bytes = b.in.Bytes // the blocks that a part keeps are those of the whole
	return first
}
