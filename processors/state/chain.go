package state

import (
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/waits"
)

// chain holds the unsettled messages that have changed the state of a key, in order.
type chain struct {
	book *book
	key  string

	users int     // calls, entries and saves in progress that use the chain; the book's lock guards it and next
	next  *saving // a write that has not begun

	ready chan struct{} // closed when the state has been read; nil: already read

	mu   sync.Mutex // guards the fields below, and some of its entries' fields
	err  error      // why the state could not be read
	base object     // state before the first entry of log
	log  []*entry
	last object // state after the last entry of log
	bad  bool   // last must be recomputed

	fresh bool // something was committed but not saved
	left  int  // removed entries that the book has not yet subtracted
	freed int  // their size in bytes
}

// entry is a message that has changed a state.
type entry struct {
	step    *step
	chain   *chain
	ref     uint64
	origins []engine.Origin
	size    int // bytes that count against maxPending

	owed   int  // origins not settled yet; the book's lock guards it and failed
	failed bool // at least one origin has failed

	// The chain's lock guards the fields below.
	state  phase
	made   bool            // after is set
	after  object          // the state after this message
	stale  bool            // after must be recomputed, since an earlier entry is gone
	solid  object          // the state after this message if only committed entries count; see sound
	sound  bool            // solid is up to date
	copy   *engine.Message // for recomputation; nil: it was the first entry of its chain
	resume func(func(*engine.Message) error)
	wait   waits.Wait
}

type phase uint8

const (
	waiting   phase = iota // for earlier entries
	admitted               // no longer waiting, but without a state so far
	pending                // its message is not settled
	committed              // its message is delivered or filtered
	gone                   // its message has failed
)

// open reports whether the fate of an entry is unknown.
func (e *entry) open() bool { return e.state <= pending }

// now returns the state for the next message.
func (c *chain) now() object {
	if !c.bad {
		return c.last
	}
	c.last, c.bad = c.base, false
	for _, e := range c.log {
		if e.state >= pending {
			c.last = e.follow(c.last)
		}
	}
	return c.last
}

// until returns the state for e, which has waited.
func (c *chain) until(e *entry) object {
	o := c.base
	for _, other := range c.log {
		if other == e {
			break
		}
		if other.state >= pending {
			o = other.follow(o)
		}
	}
	return o
}

// follow returns the state after e.
func (e *entry) follow(now object) object {
	if e.stale {
		e.after, e.stale = e.again(now), false
	}
	return e.after
}

// again recomputes the state after e from the state before it. On an error, the state stays unchanged.
func (e *entry) again(now object) object {
	before := e.copy.Notes()
	l, err := e.step.next(e.copy, now)
	if err != nil {
		e.step.book.skipped(err)
		return now
	}
	e.copy.SetNotes(before)
	return l.now
}

// leaves records the state after an entry, and the copy that recomputing it needs.
func (c *chain) leaves(e *entry, after object, copy *engine.Message) {
	e.state, e.made, e.after, e.copy = pending, true, after, copy
	at := slices.Index(c.log, e)
	for _, later := range c.log[at+1:] {
		later.stale = later.made
		c.bad = true
	}
	if !c.bad {
		c.last = after
	}
}

// fold removes settled entries. It returns the state to store, and the step whose ttl applies.
func (c *chain) fold() (value object, by *step) {
	c.drop()
	n, sound := 0, true
	for n < len(c.log) && c.log[n].state == committed {
		e := c.log[n]
		if e.stale && e.sound && sound { // exactly the entries before it count
			e.after, e.stale = e.solid, false
		}
		c.base, by, sound = e.follow(c.base), e.step, sound && e.sound
		c.leave(e)
		n++
	}
	c.log = slices.Delete(c.log, 0, n)
	value = c.base
	for _, e := range c.log {
		if e.state != committed {
			continue
		}
		if !sound || !e.sound {
			e.solid, e.sound, sound = e.again(value), true, false
		}
		value, by = e.solid, e.step
	}
	if len(c.log) == 0 {
		c.last, c.bad = c.base, false
	}
	return value, by
}

// drop removes entries that are gone, and marks later ones for recomputation.
func (c *chain) drop() {
	stale := false
	c.log = slices.DeleteFunc(c.log, func(e *entry) bool {
		if e.state == gone {
			stale, c.bad = stale || e.made, c.bad || e.made
			c.book.graph.End(&e.wait)
			c.leave(e)
			return true
		}
		e.stale = e.stale || stale && e.made
		return false
	})
}

// leave counts a removed entry.
func (c *chain) leave(e *entry) {
	c.left++
	c.freed += e.size
}

// blocked reports whether an entry at an index must wait for earlier ones. It never waits for entries that share its
// fate.
func (c *chain) blocked(e *entry, at int) bool {
	own := func(o engine.Origin) bool { return slices.Contains(e.origins, o) }
	return slices.ContainsFunc(c.log[:at], func(x *entry) bool {
		return x.open() && !slices.ContainsFunc(x.origins, own)
	})
}

// awaits reports whether the last entry must wait, and registers the wait. It does not wait if that would make the
// message wait for itself through others.
func (c *chain) awaits(e *entry) bool {
	at := len(c.log) - 1
	return c.blocked(e, at) && c.book.graph.Begin(&e.wait, e.origins, c.blockers(e, at), e.cut)
}

// blockers returns the origins for which an entry at an index waits, back to an entry that waits itself.
func (c *chain) blockers(e *entry, at int) (all []engine.Origin) {
	own := func(o engine.Origin) bool { return slices.Contains(e.origins, o) }
	for _, x := range slices.Backward(c.log[:at]) {
		if x.open() && !slices.ContainsFunc(x.origins, own) {
			if all = append(all, x.origins...); x.state == waiting {
				break
			}
		}
	}
	return all
}

// admit returns the entries, from an index on, that need not wait any more. It stops at one that still waits: nothing
// has changed for those behind it.
func (c *chain) admit(from int) (free []*entry) {
	for i := from; i < len(c.log); i++ {
		e := c.log[i]
		if e.state != waiting {
			continue
		}
		if c.blocked(e, i) && c.book.graph.Change(&e.wait, c.blockers(e, i)) {
			break
		}
		e.state = admitted
		free = append(free, e)
	}
	return free
}
