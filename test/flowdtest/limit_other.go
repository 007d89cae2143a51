//go:build !linux

package flowdtest

import "os"

// limitMemory does nothing: other systems have no limit that can be set from outside.
func limitMemory(*os.Process) error { return nil }
