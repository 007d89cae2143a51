// Package headroom gives the heap of a process that runs pipelines room to grow
// between two collections.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
)

// Between two collections the heap may grow by headroom and a quarter of its own size.
// Messages are short-lived and few at a time: of a heap that only doubled there would be
// a hundred collections a second. A large one, full of messages that wait, would grow
// beyond what a machine has for it.
const (
	headroom = 12 << 20 // bytes
	growth   = 25       // percent
)

// Leave keeps memory until it is released that is never touched, and so takes none of the
// machine's, but that the collector counts as in use. Setting GOGC or GOMEMLIMIT overrides
// this.
func Leave() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	debug.SetGCPercent(growth)
	untouched := make([]byte, headroom*100/growth)
	return func() { runtime.KeepAlive(untouched) }
}
