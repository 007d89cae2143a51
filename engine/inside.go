package engine

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
