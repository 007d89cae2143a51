//go:build unix

package pipetest

import (
	"time"

	"golang.org/x/sys/unix"
)

// realTime returns a time of the real clock, which package time does not show in virtual time.
func realTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
