// Package source is the part of an input that is the same for every source. An input needs none of it, but each piece
// replaces code that is easy to get wrong:
//
//   - [Session] opens, stops and closes connections: embed it, and write only what a connection of this source does.
//   - [Call] is a request that may take longer than one Read may wait.
//   - [Book] remembers what was read and settled, also across restarts. [Acks] says which messages are settled.
//   - [Signal] wakes a Read that waits for a goroutine of the input.
//
// The engine does the rest: it opens an input that has failed again, after a back-off, at the start and later (see
// [engine.Opener] and [engine.Passes]), and interrupts a Read when the pipeline pauses or stops. What an error of the
// source means is data, in a table of package cause.
package source
