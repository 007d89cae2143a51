// Package engine is the API for plugins: messages and batches, the contracts of inputs, processors, batchers, outputs and
// caches, the registries in which plugins are registered, the specification of a pipeline, and snapshots of a running one.
// Start at [Input], [Processor], [Batcher], [Output] and [Register].
//
// This package moves no messages. Package runtime builds and runs pipelines. The packages under internal, called rooms, do
// the work; each may import those to its left:
//
//	inside ◄ engine ◄ guard ◄ flow, limit, ledger ◄ order, retry ◄ steps ◄ life ◄ stage ◄ runtime
//
// The rooms keep their own data in messages and batches, behind a method that takes a key. Only they can import the type of
// the key; see [Message.Inside].
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
// At any time a message is in exactly one place: a reader's batch, the queue of the lanes, a lane, an open batch, the queue
// of a stage, a writer, the heap of timers (it waits for another attempt or a rate limit), the line of its order key, or
// with the code that has parked it. The goroutine that has it there owns it; no other one touches it. The ledger of its
// root stays open until it has ended. The comment of package stage says which file is about which place.
//
// # Glossary
//
//	root        a message as an input has read it; its source learns how it ended
//	piece       what has become of a root: the root itself, a part of a split, a copy, or a merge of several
//	fate        how a piece ended; a root ends with the worst fate of its pieces
//	ledger      the roots of one Read, until all of them have ended
//	law         received + made = consumed + ended + in flight, for roots and for pieces
//	settlement  ending the pieces of a batch: their fates, credits, results and stakes
//	stake       a step's request to learn how a root ends
//	lease       the time for which a source lends a message
//	credit      the right to have one message, or one byte, in flight
//	slab        the inside of a batch: up to 256 messages that move together
//	cell        the inside of a message
//	arena       one goroutine's memory for values of documents; reset after each batch
//	lane        a worker that runs a pipeline's own steps
//	program     a list of steps as a flat sequence of instructions; a message's place in it is one index
//	block       steps whose failures are handled as a whole
//	group       messages that leave the lanes, wait for each other and return
//	hold        an order key whose messages wait because an earlier one has failed or waits
//	claim       in package order: a message's place in the line of a key. In a shared cache: what reserves a key for the
//	            messages of one pipeline until they have ended
//	trial       the state of a message that is tried again
//	gate        the circuit breaker of an output: while it is open, probes find out whether the output is up again
//	budget      how much load retries may add to an output
//	phase       opening, running, ending, returning, over
//	fence       guards the end of messages: once it is closed, all messages have been handed back
//	spot        an input, step, case, batcher or output, as observers see it
//	passage     what became of a message at a spot
//	handover    what a pipeline leaves to the plan that replaces it
//	host        the pipeline that a plugin is built for
//
// # Locks
//
// A goroutine that holds one of these locks may take only those behind it:
//
//	the fence, for reading ► a batcher's sends ► a group ► order.Holds ► an output ► the lane queue
//	► a ledger ► credits ► timers
//
// All other locks are taken last: those of ack and settle loops, open ledgers, a batcher's inbox, pace, pauses, plugins,
// observers, and rate limits, which are locked in the order in which they were made. No lock is held during a call of a plugin, an Ack or
// a Settle.
package engine
