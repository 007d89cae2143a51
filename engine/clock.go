package engine

import (
	"sync/atomic"
	"time"
)

// clock tells since when a goroutine has been in a call, for who watches deadlines.
type clock struct {
	since atomic.Int64 // unix nanoseconds; 0: in none
	of    atomic.Pointer[op]
}

func (c *clock) start(o *op) time.Time {
	now := time.Now()
	c.of.Store(o)
	c.since.Store(now.UnixNano())
	return now
}

func (c *clock) stop() { c.since.Store(0) }

// late says since when a call is past a deadline, or the zero time.
func late(since int64, deadline time.Duration, now time.Time) time.Time {
	if since == 0 {
		return time.Time{}
	}
	if at := time.Unix(0, since); now.Sub(at) > deadline {
		return at
	}
	return time.Time{}
}
