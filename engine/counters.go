package engine

import (
	"sync"
	"sync/atomic"
)

// Counters are the named counters of a pipeline, which the function counter("name") counts. Reloads keep them; a restart
// of the process does not. They are safe for concurrent use.
type Counters struct {
	mu     sync.RWMutex // guards the field below
	byName map[string]*atomic.Int64
}

// maxCounters is how many counters a pipeline can have, since messages may choose the names.
const maxCounters = 10_000

// countersOf is the key of a pipeline's counters in Shared.
type countersOf string

// CountersOf returns the counters of a pipeline, by its name.
func CountersOf(s *Shared, pipeline string) *Counters {
	return Common(s, countersOf(pipeline), func() *Counters { return &Counters{byName: map[string]*atomic.Int64{}} })
}

// outsideCounters are for messages that no pipeline has read.
var outsideCounters = CountersOf(nil, "")

// Next returns the next number of a counter, from 1. The error says that there are too many counters.
func (c *Counters) Next(name string) (int, error) {
	c.mu.RLock()
	n := c.byName[name]
	c.mu.RUnlock()
	if n == nil {
		var err error
		if n, err = c.add(name); err != nil {
			return 0, err
		}
	}
	return int(n.Add(1)), nil
}

func (c *Counters) add(name string) (*atomic.Int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byName[name]; n != nil {
		return n, nil
	}
	if len(c.byName) >= maxCounters {
		return nil, Errorf(Permanent,
			"there are %d counters already (use fewer names: a name with the value of a field makes one counter per value)",
			maxCounters)
	}
	n := new(atomic.Int64)
	c.byName[name] = n
	return n, nil
}

// Count returns the next number of a counter of the pipeline that has read m.
func (m *Message) Count(name string) (int, error) {
	o := m.in.First().Origin
	if o.read == nil {
		return outsideCounters.Next(name)
	}
	c := o.read.Counts()
	if c == nil {
		return 0, Errorf(Permanent, "a worker in another process has no counters (count before the pool, in a `let`)")
	}
	return c.Next(name)
}
