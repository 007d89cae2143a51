package engine

import (
	"context"
	"time"
)

// Trace is what a [Tracer] keeps of a message, from its input to its end. A message that an input has read has one if a tracer
// follows it; its parts and copies have the same.
type Trace struct {
	Of any // the tracer's own; never nil, and never changed
}

// Tracer follows messages through a pipeline, such as for OpenTelemetry. It chooses at the input which ones, so that all others
// cost next to nothing. The goroutines that move messages call its methods, several at once, so these must be fast and must not
// block. Messages and batches are only valid during a call, and only Read and Failed may change their metadata.
type Tracer interface {
	// Read is called with messages that an input has read, before anything else happens to them. It begins to follow messages
	// with [Origin.SetTrace]. again says that a reload reads them again, and that some have their traces already.
	Read(at *Spot, b *Batch, again bool)
	// Call is called before a step or an output gets n messages of b, if it follows at least one of them: these are traced. It
	// returns the context of the call, and what it wants to know of it afterwards.
	Call(ctx context.Context, at *Spot, b *Batch, n int, traced []*Message) (context.Context, any)
	// Called is called after that for each message that was traced.
	Called(call any, at *Spot, m *Message, how Passage)
	// Resumed is called when a message that it follows goes on, or has failed, after a call in which it began to wait.
	Resumed(at *Spot, m *Message, how Passage)
	// Passed is called when a message that it follows has passed a spot without a call: a condition, a case or a batcher; or has
	// failed in a call that did not return, which began at a time.
	Passed(at *Spot, m *Message, how Passage, began time.Time)
	// Batched is called when a batcher has closed a batch, if it follows at least one of its messages: these are traced.
	Batched(at *Spot, b *Batch, traced []*Message)
	// Failed is called when a message that it does not follow has failed in a call that began at a time. It may begin to follow it.
	Failed(at *Spot, m *Message, began time.Time)
	// Ended is called when a message that it follows has ended, with the worst fate of its pieces, and the error that led to it,
	// or nil.
	Ended(t *Trace, f Fate, err *Error)
	// Slow is how long a message may take from its input to its end before Late is called; 0: as long as it likes. It never changes.
	Slow() time.Duration
	// Late is called when a message that it does not follow has ended after a longer time. m is the message as it was read.
	Late(pipeline string, m *Message, f Fate, err *Error)
}

// WithFollowed says whether a tracer follows the message that was read, or one that was read together with it. It is cheaper to
// ask than Trace, and has the same answer for all origins for which ReadWith is true.
func (o Origin) WithFollowed() bool { return o.read != nil && o.read.Followed() }

// ReadWith says whether two messages were read together.
func (o Origin) ReadWith(other Origin) bool { return o.read == other.read }

// Trace is the trace of the message that was read, or nil.
func (o Origin) Trace() *Trace {
	if o.read == nil {
		return nil
	}
	return o.read.Trace(o.i)
}

// SetTrace sets the trace of the message that was read. If several pieces of the message do so at once, the first one is right.
func (o Origin) SetTrace(t *Trace) {
	if o.read != nil {
		o.read.SetTrace(o.i, t)
	}
}
