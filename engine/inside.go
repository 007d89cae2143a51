package engine

import (
	"errors"
	"fmt"
)

// state is where a message is within the call that shows it.
type state uint8

const (
	live      state = iota
	dropped         // ended by a step on purpose: filtered
	discarded       // ended by `on_error: drop`
	failed          // ended by an error
	done            // an output: safe
	parked          // out of the slab, goes on later
	consumed        // split or merged: its successors carry on
	moved           // now lies in another slab
	vacant          // its place is for another: see Batch.Order
	ended           // its fate is known: see Message.fate
	waits           // to be tried again: see trialOf(Message)
)

// stage is where a message that goes on takes up again.
type stage uint8

const (
	fresh    stage = iota // at the beginning, or, in a lane, at its pc
	inInput               // in its input's own steps, at its pc
	inBatch               // in its batcher's steps, at its pc
	inOutput              // in its output's own steps, at its pc
	atWrite               // behind all steps
)

const (
	slabSize  = 256     // messages in a slab
	blockSize = 1 << 18 // bytes that inputs read at once
)

// readBytes is about how much one Read brings, since credits for bytes are charged when
// the messages are there: as many messages as the last ones were long, and one beyond it
// at most where these are longer (see Batch.Room).
const readBytes = 4 << 20

// key opens messages and batches.
type key struct{}

// slot is a pointer as a field of rare: nil stays nil.
func slot[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}

// errReported says that what went wrong has been reported already.
var errReported = errors.New("inner steps are wrong")

// noRoom is the cause of an error of a message that has to wait for bytes.
type noRoom struct{ bytes int }

func (e *noRoom) Error() string {
	return fmt.Sprintf("there is no room for %d more bytes now (engine.max_in_flight.bytes)", e.bytes)
}

// slack is what a step may add to a message without being asked: it is charged when
// the slab moves on.
const slack = 1 << 10
