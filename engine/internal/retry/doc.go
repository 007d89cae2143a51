// Package retry decides about retries: when a message is tried again ([Plan], [Trial]), how much load retries may add to an
// output ([Budget]), when an output is probed instead of written to ([Gate]), and how many writes it gets at once
// ([Adaptive]). Steps and stages call it. It has no locks, no clock and no goroutines: the owner of a message, or of an
// output's lock, passes the time.
package retry
