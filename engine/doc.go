// Package engine is what a plugin author sees: messages and batches, the contracts of inputs, processors,
// batchers, outputs and caches, the registries that plugins enter themselves in, the specs of a pipeline, and
// what a pipeline shows of itself. Start at [Input], [Processor], [Batcher], [Output] and [Register].
//
// It moves nothing. Package runtime builds and runs pipelines; the rooms under internal do the work, each below
// those that use it:
//
//	inside ◄ engine ◄ guard ◄ flow, limit, ledger ◄ order, retry ◄ steps ◄ life ◄ stage ◄ runtime
//
// What the rooms keep in a message or a batch lies behind a method that takes a key, and only they can import
// the key: see [Message.Inside].
//
// # The life of a message
//
//	source ─► reader ─► steps in a lane ─► batcher ─► steps of a batch ─► output ─► sink
//	   ▲        │           │                │                              │
//	   │     credits,     drop, fail,      match,                       ok, failed,
//	   │     a root       split, group      key                         try again
//	   │                                                                    │
//	   └──── result per root ◄── acks ◄── ledger ◄── settlement of pieces ◄─┘
//
// At any time a message is in exactly one place: a reader's batch, the queue of the lanes, a lane, an open batch,
// the queue of a stage, a writer, the heap of timers (it waits for another attempt or a limit), the line of its
// order key, or with whoever parked it. The ledger of its root is open all the while. Who has it owns it: no
// other goroutine touches it. stage says which file is about which place.
//
// # Glossary
//
//	root        a message as an input has read it; its source is told how it ended
//	piece       what becomes of a root: itself, a part of a split, a copy, a merge of several
//	fate        how a piece ended; a root ends with the worst fate of its pieces
//	ledger      the roots of one Read, until each has ended
//	law         received + made = consumed + ended + in flight, for roots and for pieces
//	settlement  ending pieces: fates, credits, results, stakes, all of one batch at once
//	stake       the wish of a step to learn how a root ends
//	lease       the time for which a source lends a message
//	credit      the right to have one message, or byte, in flight
//	slab        the inside of a batch: 256 messages that move together
//	cell        the inside of a message
//	arena       memory for what one goroutine finds in documents; reset after each batch
//	lane        a worker that runs a pipeline's own steps
//	program     a list of steps made flat; a message's place in it is one integer
//	block       steps whose failures are dealt with as a whole
//	group       messages that leave the lanes, wait for each other and go back
//	hold        an order key whose messages wait, since one of them has failed or waits
//	claim       a message's place among those that hold a key; in a cache that is shared, what reserves a key for the
//	            messages of one pipeline until they have ended
//	trial       what is known of a message that is tried again
//	gate        the circuit breaker of an output: while it is shut, probes find out whether it works
//	budget      how much trying again may add to an output's load
//	phase       opening, running, ending, returning, over
//	fence       what ends messages is inside; once it is closed, all of them have been handed back
//	handover    what a pipeline leaves to the plan that takes its place
//	host        the pipeline that a plugin is built for
//
// # Locks
//
// A goroutine that holds one of these takes only those after it:
//
//	the fence, for reading ► a batcher's sends ► a group ► order.Holds ► an output ► the lane queue
//	► a ledger ► credits ► timers
//
// All others are taken last: ack and settle loops, open ledgers, a batcher's inbox, pace, pauses, plugins, and
// rate limits, several of which are locked in the order in which they were made. No lock is held during a call
// of a plugin, an ack or a Settle.
package engine
