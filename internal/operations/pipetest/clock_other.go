//go:build !unix

package pipetest

import "time"

// realTime is not known on this system while time is virtual.
func realTime() time.Duration { return 0 }
