//go:build race || scribble

package flow

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// With the race detector, a slab that was given back is overwritten, and checked when it is reused. Code that still reads
// one of its messages gets nonsense, and code that writes to one is found.

const released inside.State = 0xEE

var nonsense = func() (m engine.Message) {
	m.Key, m.Ref, m.Attempt = []byte("of a slab that was returned"), 0xDEADDEADDEADDEAD, -1
	c := msg(&m)
	c.PC, c.Back, c.Part, c.Charge, c.State, c.Stage, c.Fate = -1, -1, -1, -1, released, 0xEE, 0xEE
	return m
}()

// scribble overwrites a slab that had n messages and was given back.
func scribble(b *engine.Batch, n int) {
	slab(b).Size = n
	all := slab(b).Msgs[:n]
	for i := range all {
		all[i] = nonsense
		msg(&all[i]).Doc.Reset(nonsense.Key, nil)
	}
}

// unscribble checks and clears a slab from the pool.
func unscribble(b *engine.Batch) {
	all := slab(b).Msgs[:slab(b).Size]
	slab(b).Size = 0
	for i := range all {
		if m := &all[i]; !untouched(m) {
			panic("engine: a message was changed after its slab was returned (please report this bug)")
		}
	}
	clear(all)
}

func untouched(m *engine.Message) bool {
	return msg(m).State == released && msg(m).Stage == msg(&nonsense).Stage && msg(m).Fate == msg(&nonsense).Fate &&
		m.Ref == nonsense.Ref && m.Attempt == -1 && msg(m).PC == -1 && msg(m).Back == -1 && msg(m).Part == -1 &&
		msg(m).Charge == -1 && msg(m).Credits == 0 &&
		string(m.Key) == string(nonsense.Key) && string(msg(m).Doc.Payload()) == string(nonsense.Key) &&
		msg(m).Orig == nil && msg(m).BatchKey == "" && msg(m).Of == nil &&
		m.Meta == engine.Meta{} && msg(m).Origin == engine.Origin{} &&
		msg(m).Err == nil && msg(m).Rare == nil && msg(m).Parking == nil && msg(m).Batch == nil
}
