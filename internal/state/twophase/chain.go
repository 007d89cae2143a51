package twophase

import (
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/waits"
)

// write is one write to a cache. Its message waits to learn whether its key is new, has an unknown fate, or is
// committed.
type write struct {
	by      *Use // nil: unused
	chain   *chain
	ref     uint64
	kind    kind
	state   state
	bad     bool  // a root of the message was returned or dropped
	void    bool  // a later write of the same key was committed first
	passed  bool  // the message has continued after its step
	base    base  // for a waiting write
	owed    int   // ends not reported yet
	lost    error // why the write was given up
	size    int
	value   []byte
	ttl     time.Duration
	origins []engine.Origin

	resume func(func(*engine.Message) error) // for a waiting write, like the next three fields
	then   Then
	wait   waits.Wait
	since  time.Time // when it began to wait, in a cache that other processes use
}

type kind uint8

const (
	set kind = iota
	add
	del
)

type state uint8

const (
	over      state = iota // answered or withdrawn
	waiting                // for writes of other messages
	pending                // visible to this pipeline
	committed              // on its way to the cache
)

// chain holds the writes of one key, in order.
type chain struct {
	o       *overlay
	key     string
	writes  []*write // pending and committed
	waiters []*write
	claim   *claim // nil: no other process uses the cache, or nothing is known
	touched bool
}

// chain returns the chain of a key, and makes it if necessary.
func (o *overlay) chain(key string) *chain {
	c := o.chains[key]
	if c != nil {
		return c
	}
	if n := len(o.spare); n > 0 {
		c, o.spare = o.spare[n-1], o.spare[:n-1]
	} else {
		c = &chain{o: o}
	}
	c.key = key
	o.chains[key] = c
	return c
}

// tidy releases an empty chain.
func (o *overlay) tidy(c *chain) {
	if c.touched || len(c.writes) > 0 || len(c.waiters) > 0 || !o.released(c) {
		return
	}
	delete(o.chains, c.key)
	c.key = ""
	if len(o.spare) < keptSlots {
		o.spare = append(o.spare, c)
	}
	if len(o.chains) == 0 && len(o.spare) == keptSlots {
		o.chains, o.spare = map[string]*chain{}, nil // a map never shrinks
	}
}

// touch records that messages waiting in c may not have to wait any more.
func (c *chain) touch() {
	if len(c.waiters) > 0 && !c.touched {
		c.touched = true
		c.o.touched = append(c.o.touched, c)
	}
}

// last returns the write that this pipeline sees, or nil if the cache's value counts.
func (c *chain) last() *write {
	for _, w := range slices.Backward(c.writes) {
		if !w.void {
			return w
		}
	}
	return nil
}

// committed reports whether a write of a delivered message is on its way to the cache.
func (c *chain) committed() bool {
	return slices.ContainsFunc(c.writes, func(w *write) bool { return w.state == committed })
}

// exists reports whether the key has a value for a message with these origins. sure is false if that depends on the
// fate of other messages or on another process. b is the content of the cache.
func (c *chain) exists(mine []engine.Origin, b base) (exists, sure bool) {
	seen := false
	for i, w := range slices.Backward(c.writes) {
		if w.void || c.replaced(i) {
			continue
		}
		is := w.kind != del
		if seen && is != exists {
			return false, false
		}
		seen, exists = true, is
		if w.certain(mine) {
			return exists, true
		}
	}
	if b == unsure {
		return false, false
	}
	return b == present, !seen || exists == (b == present)
}

// replaced reports whether a later write shares the fate of write i.
func (c *chain) replaced(i int) bool {
	for _, w := range c.writes[i+1:] {
		if !w.void && slices.Equal(w.origins, c.writes[i].origins) {
			return true
		}
	}
	return false
}

// certain reports whether a write counts whatever happens to other messages: it is committed, or shares the fate of
// the message that asks.
func (w *write) certain(mine []engine.Origin) bool {
	return w.state == committed || shares(w.origins, mine)
}

func shares(a, b []engine.Origin) bool {
	return slices.ContainsFunc(a, func(o engine.Origin) bool { return slices.Contains(b, o) })
}

// blockers appends the origins whose fate exists depends on.
func (c *chain) blockers(dst, mine []engine.Origin) []engine.Origin {
	for _, w := range slices.Backward(c.writes) {
		switch {
		case w.void:
		case w.certain(mine):
			return dst
		default:
			dst = append(dst, w.origins...)
		}
	}
	return dst
}

// await makes w wait in its chain.
func (o *overlay) await(w *write) {
	w.state = waiting
	w.chain.waiters = append(w.chain.waiters, w)
	if w.chain.claim != nil {
		w.since = time.Now()
		o.manage(w.chain, true)
	}
}

// withdraw removes w from its chain: it has ended.
func (b *book) withdraw(w *write) {
	c := w.chain
	switch w.state {
	case over:
		return
	case waiting:
		c.waiters = without(c.waiters, w)
		b.graph.End(&w.wait)
	default:
		c.writes = without(c.writes, w)
		c.touch()
	}
	w.state, w.chain, w.resume, w.then, w.value = over, nil, nil, nil, nil
	c.o.tidy(c)
}

// without returns list without w, which is usually the first.
func without(list []*write, w *write) []*write {
	i := slices.Index(list, w)
	if i < 0 {
		return list
	}
	return slices.Delete(list, i, i+1)
}
