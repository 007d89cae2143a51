// Package retry owns trying again: when ([Plan]), what is known of a message that is tried again ([Trial]), how much
// of it an output bears ([Budget]), when an output is left alone and probed ([Gate]), and how many writes it takes
// at once ([Adaptive]). Steps and stages call it. It has no locks, no clock and no goroutines: who owns a message,
// or an output's lock, passes the time in.
package retry
