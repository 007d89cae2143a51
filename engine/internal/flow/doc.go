// Package flow moves messages and limits them: [Credits], the queue of the lanes ([LaneQueue]), slabs and their pools,
// [Pace], [Timers], and memory for keys ([Keyring]). Stages call it. Credits and the lane queue call back, without their
// locks, when somebody waits.
//
// Locks are taken in this order: lane queue, ledger, credits, timers. The lock of pace is taken last.
//
// The promises: readers get credits in the order in which they asked, after messages that grow. Nobody sees a slab that was
// given back: with -race or -tags scribble it is overwritten, and a late write is found. Nothing here allocates per message.
package flow
