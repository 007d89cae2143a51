// Package order decides which messages wait because an earlier message with the same order key has failed, waits for
// a rate limit or is parked. Start at [Holds].
//
//	                     read later                       in the lanes, or at an output
//	                         │                                        │
//	the key is free ─────────┼──────────────► goes on ◄───────────────┤ it is first in its lines
//	                         │                                        │
//	a claim is held ─────────┴─► before the lanes, in read order      └─► kept in the line, behind the claim
//	       ▲                              │                                        │
//	       │ fails, waits, parks          │ no line is left                        │ the claims before it end
//	       └── a message ◄────────────────┴────────────────────────────────────────┘
//
// The words:
//
//   - A hold is a key that messages hold.
//   - A line is the queue of a key at one place, the lanes or an output. Only the message at its head may move on.
//   - A claim is a message's place in a line. A merge has a claim for each of its keys. The parts of a split share the
//     claim of the whole.
//   - A gap is the place of a message that waits in its input's own steps, before it has an order key.
//
// Lanes, groups and writers call this package. One lock guards everything; it is taken after the lock of a group and
// before that of an output. While no key is held, a check costs one atomic load.
//
// The promise: messages with equal keys leave the lanes, and are written, in the order in which they were read, whatever
// fails, waits, splits or merges in between.
package order
