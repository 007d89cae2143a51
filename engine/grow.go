package engine

import (
	"math"

	"github.com/flowd-io/flowd/engine/doc"
)

// meter charges credits for the growth of messages. An arena has one as its Owner.
type meter interface {
	// Grow charges n bytes that a step is about to add to m.
	Grow(m *Message, n int) error
	// Most is how many bytes m can grow by at most.
	Most(m *Message) int
	// Settle charges m for the bytes that it has after a step, which used spent bytes of the arena.
	Settle(m *Message, spent int) error
	// Regain gives back credits that m no longer needs, before it enters the next step.
	Regain(m *Message)
	// Inside is the meter for messages that a step makes of m for its inner steps.
	Inside(of *Message) any
	// Free gives back the credits of such messages.
	Free()
}

// Grow asks for room for n bytes. A step whose results may be much longer than its input, such as decompression, calls it
// before it makes them, and returns its error with m unchanged. The message then waits until there is room and enters the
// step again, or fails if there can never be enough. Several goroutines may call Grow for messages of one call.
func (m *Message) Grow(n int) error {
	if own := ownerOf(m.in.Doc.Arena()); own != nil {
		return own.Grow(m, n)
	}
	return nil
}

// MayGrow is how many bytes m can grow by at most. Beyond that, Grow fails for good.
func (m *Message) MayGrow() int {
	if own := ownerOf(m.in.Doc.Arena()); own != nil {
		return own.Most(m)
	}
	return math.MaxInt
}

// Free gives back the room of b, a batch for inner steps. The caller has used their results, and uses b no more.
func (b *Batch) Free() {
	if own := ownerOf(b.in.Arena); own != nil {
		own.Free()
	}
}

func ownerOf(a *doc.Arena) meter {
	if a == nil || a.Owner == nil {
		return nil
	}
	return a.Owner.(meter)
}

// metered charges the growth of messages in an arena, for inner steps, to the message outside.
func metered(a *doc.Arena, outer *Message) {
	own := ownerOf(outer.in.Doc.Arena())
	if a != nil && own != nil && (a.Owner == nil || outer.in.Rare != nil) { // outer may have got room since
		a.Owner = own.Inside(outer)
	}
}
