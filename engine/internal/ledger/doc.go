// Package ledger owns what a run owes: the roots of every Read until each has ended ([Ledger]), the conservation
// law of roots and pieces, the loops that tell sources ([AckLoop]) and steps how their
// messages ended, leases, recalls, the span that may be read again, and the failures that are reported. [Account]
// holds all of it for a run; settlement in package stage is what calls it.
//
// A ledger's lock guards what several pieces of a root share. That of the open ledgers and those of the loops are
// taken last. A root whose one piece ends takes no lock.
//
// The memory of roots is used again once their source knows how all of a ledger have ended (Recycle), unless somebody
// may still look at them who has no piece of them any more (Pin).
//
// It promises that every root gets exactly one end: what ends it tells its source, in read order, or its lease is
// lost and its source is told nothing. Acks are tried again for minutes; a stake is told once.
package ledger
