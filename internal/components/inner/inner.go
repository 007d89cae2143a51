// Package inner runs steps on copies of messages, for steps that contain steps. Start at [Copy] and [Outcomes].
package inner

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
)

// Copy makes a batch of copies, for [engine.Runner.Run]. The Ref of a copy is the index of its message in of, plus
// one. Call [Freeze] before several goroutines work on copies of the same messages.
func Copy(of []*engine.Message) *engine.Batch {
	b := engine.NewBatch(len(of))
	for _, m := range of {
		b.Copy(m)
	}
	ref := uint64(0)
	for m := range b.All() {
		ref++
		m.Ref = ref
	}
	return b
}

// Freeze makes the documents of a batch safe for concurrent reading: several goroutines can then read what their
// copies share.
func Freeze(b *engine.Batch) {
	for m := range b.All() {
		_ = m.Doc().Valid() // the document remembers the result
		_ = m.Doc().Bytes() // splices the edits
	}
}

// Outcome is what steps have made of one copy.
type Outcome struct {
	Live    *engine.Message // it continues; nil: one of the fields below is set
	Err     error           // it failed
	Dropped bool            // a step filtered it
	Gone    bool            // `on_error: drop` of a step dropped it
}

// Outcomes returns the outcomes of n copies after a run, by index. A copy that was split or merged has failed: it
// can't become one message again.
func Outcomes(b *engine.Batch, n int, step string) []Outcome {
	all, found, merged := make([]Outcome, n), make([]int, n), false
	note := func(m *engine.Message, o Outcome) {
		if m.Ref == 0 { // only messages that a step has created have none
			merged = true
			return
		}
		i := m.Ref - 1
		all[i] = o
		found[i]++
	}
	for m := range b.All() {
		note(m, Outcome{Live: m})
	}
	for m := range b.Ended() {
		if err := m.Err(); err != nil {
			note(m, Outcome{Err: err})
		} else {
			note(m, Outcome{Dropped: true})
		}
	}
	for i := range all {
		switch {
		case found[i] > 1:
			all[i] = Outcome{Err: fmt.Errorf("a step inside %s has turned one message into %d, which can't continue as one (split after it)", step,
				found[i])}
		case found[i] == 0 && merged:
			all[i] = Outcome{Err: fmt.Errorf("a step inside %s has merged messages, which can then not continue separately (merge after it)", step)}
		case found[i] == 0:
			all[i] = Outcome{Gone: true}
		}
	}
	return all
}

// Give makes to what its copy has become: payload, metadata, notes and vars.
func Give(to, from *engine.Message) {
	GiveBody(to, from.Bytes())
	to.Meta = from.Meta
	to.SetNotes(to.Notes().Join(from.Notes()))
	to.SetVars(from.Vars())
}

// GiveBody sets the payload of a message. If it is the same memory, the document keeps its index.
func GiveBody(to *engine.Message, body []byte) {
	if !Same(to.Bytes(), body) {
		to.SetBytes(body)
	}
}

// Same reports whether two payloads are the same memory, so that neither was edited.
func Same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
