// Package ledger keeps what a run owes to sources and steps. Start at [Account]. A [Ledger] has the roots of one Read until
// all have ended; an [AckLoop] tells a source how its messages ended. The package also has the conservation law of roots
// and pieces, stakes, leases, recalls, the limit on what may be read again after a crash, and reports of failures. The
// settlement of package stage calls it.
//
// The lock of a ledger guards what several pieces of a root share; the end of a root's only piece takes no lock. The locks
// of the open ledgers and of the loops are taken last.
//
// When the source has got the results of all roots of a ledger, their memory is reused (Recycle), unless code without a
// piece of them may still read them (Pin).
//
// The promise: every root ends exactly once. Its source gets the result, in the order of reading, unless the lease is lost.
// Failed acks are tried again until the pipeline ends. A stake is told once.
package ledger
