package engine

import (
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Spot is a place in a running pipeline that messages pass. Its pointer identifies it while its plan runs; a reload makes
// new ones.
type Spot struct {
	Pipeline string
	Kind     SpotKind
	Name     string       // of the component; of a step, as in errors and metrics
	Of       string       // of a step: what it belongs to, such as "output lake" or "step each"; "": it is the pipeline's own
	Type     string       // its type key, such as "filter"
	Config   any          // its configuration, as in Plugin; only to be read
	When     *expr.Cond   // of a step or a case; nil: none
	Place    schema.Place // in the pipeline file
	Untraced bool         // the pipeline passes no context of traces on; see TraceContext
}

// SpotKind says what a [Spot] is.
type SpotKind string

// The kinds of spots.
const (
	InputSpot   SpotKind = "input"
	StepSpot    SpotKind = "step"
	CaseSpot    SpotKind = "case" // of a switch: the message goes on to its steps
	BatcherSpot SpotKind = "batcher"
	OutputSpot  SpotKind = "output"
	EndSpot     SpotKind = "end" // of messages; only asked for, see Observer.Ended
)

// Passage is what became of a message at a spot.
type Passage string

// The passages.
const (
	PassedOn     Passage = "passed"   // it goes on, or, at an input, it was read
	SkippedStep  Passage = "skipped"  // the step's `when` is false
	FilteredOut  Passage = "filtered" // a step has dropped it on purpose
	SplitUp      Passage = "split"    // its parts go on
	MergedInto   Passage = "merged"   // the step has merged it with others
	IsWaiting    Passage = "waits"    // the step continues it later
	FailedThere  Passage = "failed"   // see Message.Err; a retry passes the spot again
	BatchedThere Passage = "batched"  // the batcher has closed the batch that it is in
	WrittenThere Passage = "written"  // the output has written it
)

// Observer sees messages at the spots that they pass, such as for flowd tap. The goroutines that move messages call its
// methods, several at once, so these must be fast and must not block. Messages and batches are only valid during a call and
// must not be changed; expressions may be evaluated on them.
type Observer interface {
	// Wants returns how many of n messages that are about to pass a spot it wants to see: the first ones. It is called once
	// for each run of messages, whether or not anything is observed, so it decides fast.
	Wants(at *Spot, n int) int
	// Before is called before a step or an output gets m. What it returns is passed to After.
	Before(at *Spot, m *Message) any
	// After is called when m, which is in b, has passed a spot. Steps may have changed m. For a step, b is not the batch of
	// its messages(). before is nil unless the spot is a step or an output.
	After(at *Spot, before any, b *Batch, m *Message, how Passage)
	// Ended is called when a message that an input has read has ended, with the worst fate of its pieces, and the error that
	// led to it, or nil. The origin is no longer valid afterwards.
	Ended(o Origin, f Fate, err *Error)
}
