// Package steps runs the steps of a list over batches. A [Program] is the list as a flat sequence of instructions; an
// [Executor] runs it. Start there.
//
// Lanes and writers run executors. As their [Owner] they keep account of messages that steps split, merge or fail. Blocks
// are steps whose failures are handled as a whole. A [Room] charges credits for what steps add to messages.
//
// An executor and the batch that it runs belong to one goroutine. A room has a lock, since a step may use several
// goroutines.
//
// The promises: a message that is retried, or continues by an on_error, is as the failed step found it. Messages do not
// grow beyond the credits; see growth.go.
package steps
