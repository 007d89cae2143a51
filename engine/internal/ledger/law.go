package ledger

import (
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// HowMany is the number of fates.
const HowMany = len(engine.Counts{}.Ended)

// law counts the roots, or the pieces, of a run; see engine.Counts.
type law struct {
	Received, made, consumed atomic.Int64
	ended                    [HowMany]atomic.Int64
	InFlight                 atomic.Int64
}

// Set takes over the counts of another run.
func (c *law) Set(n engine.Counts) {
	c.Received.Store(n.Received)
	c.made.Store(n.Made)
	c.consumed.Store(n.Consumed)
	c.InFlight.Store(n.InFlight)
	for f := range c.ended {
		c.ended[f].Store(n.Ended[f])
	}
}

func (c *law) Receive(n int) {
	c.Received.Add(int64(n))
	c.InFlight.Add(int64(n))
}

func (c *law) Count(ended *[HowMany]int64, made, consumed int64) {
	change := made - consumed
	for f, n := range ended {
		if n > 0 {
			c.ended[f].Add(n)
			change -= n
		}
	}
	if made > 0 {
		c.made.Add(made)
	}
	if consumed > 0 {
		c.consumed.Add(consumed)
	}
	if change != 0 {
		c.InFlight.Add(change)
	}
}

func (c *law) Read() engine.Counts {
	n := engine.Counts{Received: c.Received.Load(), Made: c.made.Load(), Consumed: c.consumed.Load(),
		InFlight: c.InFlight.Load()}
	for f := range c.ended {
		n.Ended[f] = c.ended[f].Load()
	}
	return n
}
