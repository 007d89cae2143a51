// Package guard calls plugins. It owns deadlines that cost nothing until somebody looks at them, calls that are
// left behind when they do not come back, clocks that say since when a call has been under way, and histograms of
// what calls take. Every room above it calls it. Its locks are taken last. It promises that no panic of a plugin
// gets through, and that nobody waits for a call that ignores its context.
package guard
