// Package stage moves messages: it is a pipeline at work, between the plan that package runtime has built and the
// plugins. A [Layout] says what there is, a [Run] is one life of it. Only package runtime calls this package.
//
// # What it owns
//
// Every message that was read and has not ended, and the goroutines that carry it: readers, lanes, batchers, and the
// workers of groups and outputs. What it owes to sources and steps is written down in package ledger; credits, the
// queue before the lanes and timers are those of package flow; keys that a failed message holds are in package order.
//
// # The way of a message
//
// A message is in one place at a time, and whoever has it there owns it, without a lock:
//
//	source ─▶ reader ─▶ lane queue ─▶ lane ─▶ batcher ─▶ stage ─▶ sink ─▶ system
//	                        ▲          │ ▲               queue,   write
//	                        │          ▼ │               steps
//	                        │        group (a stage without a sink)
//	                        └── what was held, and what is tried again in a lane
//
//	read.go, read_pace.go     a reader takes credits, reads, opens a ledger, runs the input's own steps
//	push.go                   messages that are pushed into an input while it runs, by one more reader
//	lane.go, lane_serial.go   a lane runs the pipeline's steps over a slab
//	group.go                  a group gathers messages of the lanes, and gives them back
//	route.go                  which batcher takes a message
//	batch.go                  a batcher gathers messages, or passes them on as they come
//	composite.go              which output takes a batch: fallback, partition, round robin
//	stage.go, worker.go       a queue, the order of its keys, and the workers that run the steps of whole batches
//	sink.go                   what they write to: breaker, probes, budget, concurrency
//	write.go                  one write
//	sink_instance.go          writes that hang, and the instances that are opened in their place
//
// The way out is one path. Whoever has found out what became of a message tells an outcome:
//
//	settle.go                 conclude is the table: state to end; then the piece ends, its root, its stakes; apply
//	settle_fail.go            a message has failed for good: dead letter, return, stop, drop
//	settle_rescue.go          what may take it before: an on_error, the next output of a fallback, the parts of a merge
//	settle_retry.go           a message waits for another try, and resumes where it failed
//	settle_park.go            a message waits for whoever parked it
//	settle_forward.go         a message goes on
//	settle_unfinished.go      what there is no time for goes back
//	pieces.go                 splits, merges and copies make and consume pieces
//
// Beside the way: run.go starts and ends all of it, quiesce.go finds out that nothing is left, pressure.go keeps
// readers from running ahead and sends open batches on when credits are short, watch.go looks for calls that hang,
// handover.go leaves unsettled messages to the next plan, state.go takes snapshots.
//
// # The parts
//
// A [Run] makes the parts, starts them and ends them. What a type can touch, its fields say; no part has the Run:
//
//	settlement    what is owed for messages, the credits and keys that they hold, timers, and where messages go on: every
//	              part has it, for every part can end messages
//	outcome       what one goroutine has found out and the settlement does not know yet
//	laneFeed      the way into the lanes
//	batching      batchers and groups, which lanes fill
//	writing       outputs; feeding pauses readers while none of them may be fed
//	intake        counts of readers
//	balance       sees all of these, but for readers and lanes: it sends open batches on when credits are short, and finds
//	              out that nothing is left. Parts tell it when to look, as an overseer
//	verdict       why the run ends
//
// # Locks
//
// In this order; whoever has one may take those behind it. Plugins are called without any. Hooks are called within
// stage.mu and group.mu, so that they see events in order: they must not wait.
//
//	batcher.sends    keeps the order of batches that waited for a place in flight
//	life.Life        the fence: read-held by all that ends messages, so that handing back is alone
//	group.mu         the open batch of a group, and the order in which batches are queued
//	order.Holds      keys that are held, and the order of what is let go
//	stage.mu         a queue, its chains, its workers, and the sink behind it
//	flow             lane queue, credits, timers: each for itself
//
// batcher.mu, verdict.mu and the locks of package ledger are held for a few lines, and nothing is called meanwhile.
//
// # What it promises
//
// Every piece ends once, and is counted once. Messages of a key are in flight at one exit at most once, in the order
// in which they were read. Where steps only edit their message ([engine.Edit]), any lane takes the next slab, finds the
// order keys with the scan that the steps need anyway, and waits for its turn before it passes on what it has; else the
// reader finds the keys, and they choose the lane.
//
// Only readers and splits wait for credits; nothing else waits for room, so nothing can wait in a circle: a lane that
// waits for its turn waits for lanes that split nothing. A slab is worked on by one goroutine; what is done per message
// in a lane allocates nothing.
package stage
