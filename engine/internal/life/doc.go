// Package life has the phase of a run ([Life]), says whether reading is paused ([Pauses]), and opens and closes plugins
// ([Plugins]). Package runtime advances the phase; every stage asks for it.
//
//	opening ──► running ──► ending ──► returning ──► over
//	                          │                        ▲
//	                          └──── nothing is left ───┘
//
// Phases only advance, and may be skipped. Why a run ends (a drain, a replacement, or the end of its inputs) is separate
// from the phase.
//
// Code that ends messages holds the fence for reading. It is the first of all locks. Once it is closed, all messages have
// been handed back, and late code finds that out.
package life
