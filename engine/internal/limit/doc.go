// Package limit has rate limits: windows and token buckets, for all messages or for each value of a key ([Limiter]), and
// the lines in which readers and writers wait for several limits ([WaitLine]). Readers, writers and the step rate_limit
// call it.
//
// A Limiter has one lock. Code that needs several limits locks them in the order in which they were made. A Limiter neither
// waits nor reads the clock. The promise: never more messages pass than a limit allows, whatever callers' clocks say.
package limit
