package state

import (
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/waits"
)

// chain has the messages under way that have changed the state of a key, in the order in which they came.
type chain struct {
	book *book
	key  string

	users int     // calls that have it in hand, entries, and what is being saved; the book's lock guards it and the next
	next  *saving // that is not being made yet

	ready chan struct{} // closed when its state has been read; nil: it has

	mu   sync.Mutex // guards the fields below, and those of its entries that say so
	err  error      // why its state could not be read
	base object     // what the messages before log have left
	log  []*entry
	last object // what all of them leave
	bad  bool   // last must be made again

	fresh bool // something was committed that is not saved
	left  int  // entries that have left it and that the book does not know of
	freed int  // bytes of those
}

// entry is a message that has changed a state.
type entry struct {
	step    *step
	chain   *chain
	ref     uint64
	origins []engine.Origin
	size    int // bytes that it counts in its book

	owed   int  // ends that are still to be reported; the book's lock guards it and the next
	failed bool // one of them was not well

	// The chain's lock guards the fields below.
	state  phase
	made   bool            // it leaves something
	after  object          // that
	stale  bool            // after must be made again: one before it is gone
	solid  object          // what it leaves if only what is committed counts; see sound
	sound  bool            // solid holds
	copy   *engine.Message // to make them again; nil: it was the first of its chain
	resume func(func(*engine.Message) error)
	wait   waits.Wait
}

type phase uint8

const (
	waiting   phase = iota // for those before it
	admitted               // it no longer waits, and will soon have a state
	pending                // its message is under way
	committed              // its message has ended well
	gone                   // its message has failed
)

// open reports whether it is not known what becomes of an entry.
func (e *entry) open() bool { return e.state <= pending }

// now is the state that the next message finds.
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

// until is what e finds, which has waited.
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

// follow is what e leaves after a state.
func (e *entry) follow(now object) object {
	if e.stale {
		e.after, e.stale = e.again(now), false
	}
	return e.after
}

// again makes of a state what the message would have made of it. Where it can't, it leaves the state as it is.
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

// leaves gives an entry what its message has made of the state, and what it needs to do so again.
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

// fold takes out what is settled, and returns what the store is to have, with the step that says for how long.
func (c *chain) fold() (value object, by *step) {
	c.drop()
	n, sound := 0, true
	for n < len(c.log) && c.log[n].state == committed {
		e := c.log[n]
		if e.stale && e.sound && sound { // all before it counts, and nothing else
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

// drop takes out what is gone. What came after it has to be made again.
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

// leave takes down that an entry is no longer in c.
func (c *chain) leave(e *entry) {
	c.left++
	c.freed += e.size
}

// blocked reports whether an entry at a place has to wait for others before it. It never does for those that share its
// fate.
func (c *chain) blocked(e *entry, at int) bool {
	own := func(o engine.Origin) bool { return slices.Contains(e.origins, o) }
	return slices.ContainsFunc(c.log[:at], func(x *entry) bool {
		return x.open() && !slices.ContainsFunc(x.origins, own)
	})
}

// awaits reports whether the last entry has to wait, and begins that. It does not where the message would wait for itself, by
// way of others that wait for it.
func (c *chain) awaits(e *entry) bool {
	at := len(c.log) - 1
	return c.blocked(e, at) && c.book.graph.Begin(&e.wait, e.origins, c.blockers(e, at), e.cut)
}

// blockers are the origins of those for which an entry at a place waits, back to one that waits itself.
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

// admit is who need no longer wait, of those from a place on. What is behind one that still waits has not changed.
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
