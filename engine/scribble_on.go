//go:build race || scribble

package engine

// With the race detector, as all tests run, a slab that was given back is written
// over, and looked at when it is lent again: who still reads one of its messages gets
// nonsense, and who writes to one is found.

const released state = 0xEE

var nonsense = func() (m Message) {
	m.Key, m.Ref, m.Attempt = []byte("of a slab that was given back"), 0xDEADDEADDEADDEAD, -1
	m.in = Cell{PC: -1, Back: -1, Part: -1, Charge: -1, State: released, Stage: 0xEE, Fate: 0xEE}
	return m
}()

// scribble is told of a slab of n messages that nobody may use any more.
func (b *Batch) scribble(n int) {
	b.in.Size = n
	all := b.in.Msgs[:n]
	for i := range all {
		all[i] = nonsense
		all[i].in.Doc.Reset(nonsense.Key, nil)
	}
}

// unscribble makes a slab from the pool usable again.
func (b *Batch) unscribble() {
	all := b.in.Msgs[:b.in.Size]
	b.in.Size = 0
	for i := range all {
		if m := &all[i]; !m.untouched() {
			panic("engine: a message was changed after its slab was given back (please report this bug)")
		}
	}
	clear(all)
}

func (m *Message) untouched() bool {
	return m.in.State == released && m.in.Stage == nonsense.in.Stage && m.in.Fate == nonsense.in.Fate &&
		m.Ref == nonsense.Ref && m.Attempt == -1 && m.in.PC == -1 && m.in.Back == -1 && m.in.Part == -1 && m.in.Charge == -1 && m.in.Credits == 0 &&
		string(m.Key) == string(nonsense.Key) && string(m.in.Doc.Payload()) == string(nonsense.Key) && m.in.Orig == nil && m.in.BatchKey == "" && m.in.Of == nil &&
		m.Meta == Meta{} && m.in.Origin == Origin{} &&
		m.in.Err == nil && m.in.Rare == nil && m.in.Parking == nil && m.in.Batch == nil
}
