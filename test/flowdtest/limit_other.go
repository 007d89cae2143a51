//go:build !linux

package flowdtest

import "os"

// limitMemory does nothing: on other systems, the limits of another process can't be set.
func limitMemory(*os.Process) error { return nil }
