// Package inner runs steps over copies of a step's messages, for steps that have
// steps inside. Start at [Copy] and [Outcomes].
package inner

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
)

// Copy makes a batch of copies, for [engine.Runner.Run]. The Ref of a copy is
// the index of its message in of, plus one. Before several goroutines work on
// copies of the same messages, [Freeze] is called.
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

// Freeze makes sure that reading the documents of a batch changes nothing in them
// any more: several goroutines can then read what their copies share.
func Freeze(b *engine.Batch) {
	for m := range b.All() {
		_ = m.Doc().Valid() // whatever it says is remembered
		_ = m.Doc().Bytes() // splices the edits
	}
}

// Outcome is what steps have made of one copy.
type Outcome struct {
	Live    *engine.Message // it continues; nil: see below
	Err     error           // it failed
	Dropped bool            // a step dropped it on purpose, as filtered
	Gone    bool            // a step's `on_error: drop` did
}

// Outcomes are what became of n copies after a run, by index. A copy that was
// split into several or merged has failed: it can't be taken back as one message.
func Outcomes(b *engine.Batch, n int, step string) []Outcome {
	all, found, merged := make([]Outcome, n), make([]int, n), false
	note := func(m *engine.Message, o Outcome) {
		if m.Ref == 0 { // only what a step has made itself has none
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

// Give makes a message what its copy has become: payload, metadata, notes and vars.
func Give(to, from *engine.Message) {
	GiveBody(to, from.Bytes())
	to.Meta = from.Meta
	to.SetNotes(to.Notes().Join(from.Notes()))
	to.SetVars(from.Vars())
}

// GiveBody makes body the payload of a message. What is known of the document stays
// known if it is the same.
func GiveBody(to *engine.Message, body []byte) {
	if !Same(to.Bytes(), body) {
		to.SetBytes(body)
	}
}

// Same reports whether two payloads are the same memory, so that neither was edited.
func Same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
