// Package life owns how far a run has come ([Life]), whether reading is paused ([Pauses]), and which plugins are open
// ([Plugins]). Package runtime advances it; every stage asks it.
//
//	opening ──► running ──► ending ──► returning ──► over
//	                          │                        ▲
//	                          └──── nothing is left ───┘
//
// A phase is never left for an earlier one, and may be skipped. Why a run ends, by a drain, for another plan, or by
// itself, stands beside the phase.
//
// The fence is held for reading by whoever ends messages, and is the first of all locks. Once it is closed, all
// messages have been handed back, and whoever comes late finds that out.
package life
