// Package order owns order keys ([Holds]): which messages of a key wait because an earlier one has failed, waits
// for a limit or is parked, and where.
//
//	                     read later                       in the lanes, or at an output
//	                         │                                        │
//	the key is free ─────────┼──────────────► goes on ◄───────────────┤ it is the first of its lines
//	                         │                                        │
//	a claim is held ─────────┴─► before the lanes, in read order      └─► kept in the line, behind the claim
//	       ▲                              │                                        │
//	       │ fails, waits, parks          │ no line is left                        │ the claims before it end
//	       └── a message ◄────────────────┴────────────────────────────────────────┘
//
// A hold is a key with claims. A line is a place, the lanes or an output, with the claims that were made there, in
// the order of the messages: only the first may move on. A claim is a message's place in a line; the parts of a
// merge have one in the lines of each of their keys. A gap is the place of a message that waits before it has got
// its key.
//
// Lanes, groups and writers call it. One lock guards all of it, after that of a group and before that of an
// output. It costs one atomic load where no key is held.
//
// It promises that messages with equal keys leave the lanes, and are written, in the order in which they were
// read, whatever fails, waits, splits or merges in between.
package order
