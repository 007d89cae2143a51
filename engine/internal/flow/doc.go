// Package flow owns what moves messages and what bounds them: slabs and their pools, lists of slabs, the queue of
// the lanes, credits, pace, timers, and memory for keys. Stages call it; credits and the lane queue call back, to
// say that somebody waits, without their locks.
//
// The lock of the lane queue comes before that of a ledger, then credits, then timers; that of pace is taken last.
//
// It promises that a reader waits in line for credits; that what was given back is given on in the order in which
// readers asked, messages that grow first; that a slab which was given back is not seen by anybody (with -race and
// -tags scribble a slab is written over, and a late write is found); and that nothing here allocates per message.
package flow
