package engine

import (
	"math"

	"github.com/flowd-io/flowd/engine/doc"
)

// meter bounds the growth of messages of an arena: its Owner.
type meter interface {
	// Grow takes credits for n bytes that a step is about to add to m.
	Grow(m *Message, n int) error
	// Most is how many bytes m can grow by at all.
	Most(m *Message) int
	// Settle compares what m keeps with its credits, when a step has worked on it.
	Settle(m *Message, spent int) error
	// Regain gives back what m, to which steps have added much, no longer needs, before it enters another.
	Regain(m *Message)
	// Inside is the meter for messages that a step makes of m for steps of its own.
	Inside(of *Message) any
	// Free gives back what such messages took.
	Free()
}

// Grow is to be called by a step that is about to make n bytes for m, beyond what it is, before
// it makes them: what a few bytes can become very many by, such as decompression. The
// error is to be returned, with m as the step found it: m is tried again when there is room, or
// fails where there never will be. Several goroutines may call it for messages of one call.
func (m *Message) Grow(n int) error {
	if own := ownerOf(m.in.Doc.Arena()); own != nil {
		return own.Grow(m, n)
	}
	return nil
}

// MayGrow is how many bytes m can grow by at all: beyond them Grow fails for good.
func (m *Message) MayGrow() int {
	if own := ownerOf(m.in.Doc.Arena()); own != nil {
		return own.Most(m)
	}
	return math.MaxInt
}

// Free says that nothing needs any more what inner steps have made of b, a batch of copies
// or of parts.
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

// metered has a batch for inner steps grow at the cost of the message that is outside.
func metered(a *doc.Arena, outer *Message) {
	own := ownerOf(outer.in.Doc.Arena())
	if a != nil && own != nil && (a.Owner == nil || outer.in.Rare != nil) { // it may have got room since
		a.Owner = own.Inside(outer)
	}
}
