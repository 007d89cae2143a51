// Package limit owns rate limits: windows and token buckets, for all messages or for each value of a key, and the
// lines in which goroutines stand that have messages at hand. Readers, writers and the step rate_limit call it. A
// Limiter has one lock; who needs several takes them in the order in which the limits were made. It neither waits
// nor asks for the time, and promises that never more messages pass than a limit allows, whatever callers' clocks
// say.
package limit
