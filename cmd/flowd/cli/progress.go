package cli

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// progress updates a line on the terminal every second until ctx ends.
func (c *console) progress(ctx context.Context, now func() []engine.Snapshot) {
	if !c.terminal {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer c.status("")
	var before int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var sum engine.Counts
		for _, s := range now() {
			add(&sum, s.Stats.Roots)
		}
		c.status(fit(progressLine(sum, sum.Received-before), c.width()))
		before = sum.Received
	}
}

// progressLine shows how many messages were received, in all and in the last second, and their fates so far.
func progressLine(c engine.Counts, lastSecond int64) string {
	s := amount(c.Received) + " received (" + rate(float64(lastSecond)) + ")"
	if ends := fates(c); ends != "" {
		s += ": " + ends
	}
	return s
}

func add(sum *engine.Counts, c engine.Counts) {
	sum.Received += c.Received
	sum.InFlight += c.InFlight
	for f, n := range c.Ended {
		sum.Ended[f] += n
	}
}

// width returns the number of columns of the terminal.
func (c *console) width() int {
	if w := width(c.out); w > 1 {
		return w
	}
	return 80
}

// fit cuts ASCII text so that it never wraps: only one line can be erased.
func fit(s string, width int) string {
	if len(s) >= width {
		return s[:width-1]
	}
	return s
}
