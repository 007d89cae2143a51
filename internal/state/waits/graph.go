// Package waits tracks which messages wait for others, so that none waits for itself. Start at [Graph].
package waits

import (
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Graph has the waits of all steps of a process. A message waits for messages of other roots. In another step or
// pipeline, those may wait for a part of its own root: a cycle, in which all would wait for ever. [Wait.Begin]
// rejects the wait that would close a cycle.
//
// Order keys make messages wait, too, without announcing it. So the graph searches for such cycles once a second
// while anybody waits, and makes one message of each cycle stop waiting.
//
// Its lock is taken after the locks of the steps that use it.
type Graph struct {
	mu     sync.Mutex                // guards the fields below, and those of its waits
	waits  map[engine.Origin][]*Wait // by the root of the waiting message
	behind map[engine.Origin][]*Wait // by the roots that are waited for
	n      int                       // number of waits
	timer  *time.Timer
}

// Wait is a waiting message. Its owner keeps it until the wait ends.
type Wait struct {
	mine, others []engine.Origin
	begun        bool
	number       int
	release      func() // makes the message stop waiting; called without a lock
}

const look = time.Second

// Of returns the graph of this process.
func Of(shared *engine.Shared) *Graph {
	return engine.Common(shared, graph{}, func() *Graph { return New() })
}

// New makes an empty graph.
func New() *Graph {
	return &Graph{waits: map[engine.Origin][]*Wait{}, behind: map[engine.Origin][]*Wait{}}
}

// graph is the key of the graph.
type graph struct{}

// Begin says that a message with some origins waits for others. It returns false if the message would wait for
// itself, so it must not wait. release is called, from any goroutine, if that is found later.
func (g *Graph) Begin(w *Wait, mine, others []engine.Origin, release func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closes(mine, others) {
		return false
	}
	g.n++
	*w = Wait{mine: slices.Clone(mine), begun: true, number: g.n, release: release}
	for _, o := range w.mine {
		g.waits[o] = append(g.waits[o], w)
	}
	g.set(w, others)
	if g.timer == nil {
		g.timer = time.AfterFunc(look, g.findCycles)
	}
	return true
}

// Change sets the origins that a message waits for. It returns false if the message would wait for itself.
func (g *Graph) Change(w *Wait, others []engine.Origin) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := w.others
	g.set(w, others)
	fewer := !slices.ContainsFunc(others, func(o engine.Origin) bool { return !slices.Contains(was, o) })
	return fewer || !g.closes(w.mine, others)
}

// End says that a message does not wait any more. It may be called more than once.
func (g *Graph) End(w *Wait) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.begun {
		return
	}
	w.begun = false
	g.set(w, nil)
	for _, o := range w.mine {
		remove(g.waits, o, w)
	}
	if len(g.waits) == 0 {
		g.waits, g.behind = map[engine.Origin][]*Wait{}, map[engine.Origin][]*Wait{} // a map never shrinks
	}
}

// set makes w wait for some roots. g.mu is held.
func (g *Graph) set(w *Wait, others []engine.Origin) {
	for _, o := range w.others {
		remove(g.behind, o, w)
	}
	w.others = slices.Clone(others)
	for _, o := range w.others {
		g.behind[o] = append(g.behind[o], w)
	}
}

func remove(from map[engine.Origin][]*Wait, o engine.Origin, w *Wait) {
	if left := slices.DeleteFunc(from[o], func(x *Wait) bool { return x == w }); len(left) > 0 {
		from[o] = left
	} else {
		delete(from, o)
	}
}

// closes reports whether one of others is, or waits for, one of mine. g.mu is held. It searches from both sides,
// which is cheap if few messages wait on one side: usually the message is new, and nobody waits for it.
func (g *Graph) closes(mine, others []engine.Origin) bool {
	awaited := func(o engine.Origin) bool { return len(g.behind[o]) > 0 || slices.Contains(others, o) }
	if !slices.ContainsFunc(mine, awaited) {
		return false
	}
	ahead, behind := reach{next: slices.Clone(others)}, reach{next: slices.Clone(mine)}
	for {
		o, ok := ahead.pop()
		switch {
		case !ok:
			return false
		case behind.has(o) || slices.Contains(mine, o):
			return true
		}
		for _, w := range g.waits[o] {
			ahead.next = append(ahead.next, w.others...)
		}
		o, ok = behind.pop()
		switch {
		case !ok:
			return false
		case ahead.has(o) || slices.Contains(others, o):
			return true
		}
		for _, w := range g.behind[o] {
			behind.next = append(behind.next, w.mine...)
		}
	}
}

// reach is the result of a search in one direction.
type reach struct {
	seen map[engine.Origin]bool
	next []engine.Origin
}

func (r *reach) has(o engine.Origin) bool { return r.seen[o] }

// pop returns a root that was not visited yet.
func (r *reach) pop() (o engine.Origin, ok bool) {
	for len(r.next) > 0 {
		o = r.next[len(r.next)-1]
		r.next = r.next[:len(r.next)-1]
		if r.seen[o] {
			continue
		}
		if r.seen == nil {
			r.seen = map[engine.Origin]bool{}
		}
		r.seen[o] = true
		return o, true
	}
	return o, false
}

// Awaited reports whether one of some roots, or one that waits for them directly or indirectly, is in a set.
func (g *Graph) Awaited(roots []engine.Origin, in map[engine.Origin]bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := map[engine.Origin][]engine.Origin{} // by the root whose order key they need
	for o, ahead := range g.held() {
		for _, a := range ahead {
			held[a] = append(held[a], o)
		}
	}
	found := reach{next: slices.Clone(roots)}
	for o, ok := found.pop(); ok; o, ok = found.pop() {
		if in[o] {
			return true
		}
		for _, w := range g.behind[o] {
			found.next = append(found.next, w.mine...)
		}
		found.next = append(found.next, held[o]...)
	}
	return false
}

// findCycles searches for cycles through order keys.
func (g *Graph) findCycles() {
	for _, release := range g.circles() {
		release()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer = nil; len(g.waits) > 0 {
		g.timer = time.AfterFunc(look, g.findCycles)
	}
}

// circles returns the release of one wait per cycle: the wait that began last.
func (g *Graph) circles() (all []func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.held()
	if len(held) == 0 { // Begin and Change have found all others
		return nil
	}
	c := components{next: func(o engine.Origin) (to []engine.Origin) {
		for _, w := range g.waits[o] {
			to = append(to, w.others...)
		}
		return append(to, held[o]...)
	}, at: map[engine.Origin]int{}, low: map[engine.Origin]int{}, on: map[engine.Origin]bool{}}
	for o := range g.waits {
		if c.at[o] == 0 {
			c.visit(o)
		}
	}
	for _, circle := range c.found {
		var last *Wait
		for _, o := range circle {
			for _, w := range g.waits[o] {
				if inside := slices.ContainsFunc(w.others, func(x engine.Origin) bool { return slices.Contains(circle, x) }); inside &&
					(last == nil || w.number > last.number) {
					last = w
				}
			}
		}
		if last != nil {
			all = append(all, last.release)
		}
	}
	return all
}

// held returns the roots that wait for their order keys, in pipelines with a waiting message. g.mu is held.
func (g *Graph) held() (all map[engine.Origin][]engine.Origin) {
	var seen []engine.KeyWaits
	for o := range g.waits {
		if keys := o.KeyWaits(); keys != nil && !slices.Contains(seen, keys) {
			seen = append(seen, keys)
			keys.Each(func(held, behind engine.Origin) {
				if all == nil {
					all = map[engine.Origin][]engine.Origin{}
				}
				all[held] = append(all[held], behind)
			})
		}
	}
	return all
}

// components finds strongly connected components of more than one root (Tarjan's algorithm).
type components struct {
	next  func(engine.Origin) []engine.Origin
	at    map[engine.Origin]int // order of visits, from 1
	low   map[engine.Origin]int
	on    map[engine.Origin]bool // roots on the stack
	stack []engine.Origin
	found [][]engine.Origin
}

// step is a visit in progress.
type step struct {
	of   engine.Origin
	left []engine.Origin
}

// visit visits everything reachable from a root. It has its own stack, since a chain of waits may contain all
// messages in flight.
func (c *components) visit(root engine.Origin) {
	enter := func(o engine.Origin) step {
		n := len(c.at) + 1
		c.at[o], c.low[o] = n, n
		c.stack, c.on[o] = append(c.stack, o), true
		return step{o, c.next(o)}
	}
	for visits := []step{enter(root)}; len(visits) > 0; {
		v := &visits[len(visits)-1]
		if len(v.left) > 0 {
			o := v.left[0]
			v.left = v.left[1:]
			switch {
			case c.at[o] == 0:
				visits = append(visits, enter(o))
			case c.on[o]:
				c.low[v.of] = min(c.low[v.of], c.at[o])
			}
			continue
		}
		done := v.of
		visits = visits[:len(visits)-1]
		if len(visits) > 0 {
			outer := visits[len(visits)-1].of
			c.low[outer] = min(c.low[outer], c.low[done])
		}
		if c.low[done] == c.at[done] {
			i := slices.Index(c.stack, done)
			if one := slices.Clone(c.stack[i:]); len(one) > 1 {
				c.found = append(c.found, one)
			}
			for _, o := range c.stack[i:] {
				c.on[o] = false
			}
			c.stack = c.stack[:i]
		}
	}
}
