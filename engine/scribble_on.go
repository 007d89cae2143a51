//go:build race || scribble

package engine

// With the race detector, as all tests run, a slab that was given back is written
// over, and looked at when it is lent again: who still reads one of its messages gets
// nonsense, and who writes to one is found.

const released state = 0xEE

var nonsense = Message{
	Key: []byte("of a slab that was given back"), Ref: 0xDEADDEADDEADDEAD, Attempt: -1,
	pc: -1, back: -1, part: -1, charge: -1, state: released, stage: 0xEE, fate: 0xEE,
}

// scribble is told of a slab of n messages that nobody may use any more.
func (b *Batch) scribble(n int) {
	b.size = n
	all := b.msgs[:n]
	for i := range all {
		all[i] = nonsense
		all[i].doc.Reset(nonsense.Key, nil)
	}
}

// unscribble makes a slab from the pool usable again.
func (b *Batch) unscribble() {
	all := b.msgs[:b.size]
	b.size = 0
	for i := range all {
		if m := &all[i]; !m.untouched() {
			panic("engine: a message was changed after its slab was given back (please report this bug)")
		}
	}
	clear(all)
}

func (m *Message) untouched() bool {
	return m.state == released && m.stage == nonsense.stage && m.fate == nonsense.fate &&
		m.Ref == nonsense.Ref && m.Attempt == -1 && m.pc == -1 && m.back == -1 && m.part == -1 && m.charge == -1 && m.credits == 0 &&
		string(m.Key) == string(nonsense.Key) && string(m.doc.Payload()) == string(nonsense.Key) && m.orig == nil && m.batchKey == "" && m.of == nil &&
		m.Meta == Meta{} && m.origin == Origin{} &&
		m.err == nil && m.rare == nil && m.parking == nil && m.batch == nil
}
