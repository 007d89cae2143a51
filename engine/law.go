package engine

import "sync/atomic"

// howMany fates there are.
const howMany = len(Counts{}.Ended)

// law counts messages, of a run's roots or pieces.
type law struct {
	received, made, consumed atomic.Int64
	ended                    [howMany]atomic.Int64
	inFlight                 atomic.Int64
}

// set takes over counts.
func (c *law) set(n Counts) {
	c.received.Store(n.Received)
	c.made.Store(n.Made)
	c.consumed.Store(n.Consumed)
	c.inFlight.Store(n.InFlight)
	for f := range c.ended {
		c.ended[f].Store(n.Ended[f])
	}
}

func (c *law) receive(n int) {
	c.received.Add(int64(n))
	c.inFlight.Add(int64(n))
}

func (c *law) count(ended *[howMany]int64, made, consumed int64) {
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
		c.inFlight.Add(change)
	}
}

func (c *law) read() Counts {
	n := Counts{Received: c.received.Load(), Made: c.made.Load(), Consumed: c.consumed.Load(), InFlight: c.inFlight.Load()}
	for f := range c.ended {
		n.Ended[f] = c.ended[f].Load()
	}
	return n
}
