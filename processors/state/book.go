package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/waits"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

const (
	// maxPending bounds what the messages under way hold in a book, in bytes: those that were delivered while an
	// earlier one of their key was not are not bounded by credits.
	maxPending = 256 << 20
	// overhead is what an entry takes in addition to key, state and message, in bytes.
	overhead = 512
	// wide is how many calls are made at once to a cache.
	wide = 64
	// few is how many chains are looked through for one.
	few = 16
)

var (
	errFull = errors.New("too many messages have changed a state and are not delivered, or were delivered while an earlier one of their " +
		"key was not (lower `engine.max_in_flight`)")
	errClosed = errors.New("the step is closed")
)

// book is the state that a store has, as the pipelines of this process see it. It is the [engine.Settler] of their
// stakes.
type book struct {
	store store
	cache string // its name; "": the step's own memory
	log   *slog.Logger
	by    engine.Settler // b, or where there is a cache what makes sources wait for it
	odd   atomic.Int64   // evaluations that have failed; see skipped

	behind *writebehind.Queue[*saving] // writes to the cache; nil: there is none
	graph  *waits.Graph

	mu     sync.Mutex // guards the fields below; taken after the lock of a chain
	chains map[string]*chain
	refs   map[uint64]*entry // by number, until the ends of their messages are known
	stamp  uint64            // the last number
	bytes  int               // of all entries
	closed map[*step]bool
	lost   int   // states that are not in the cache
	why    error // of the last of them
}

func newBook(s store, cache string, graph *waits.Graph, log *slog.Logger) *book {
	b := &book{store: s, cache: cache, log: cmp.Or(log, slog.New(slog.DiscardHandler)), chains: map[string]*chain{},
		refs: map[uint64]*entry{}, graph: graph, closed: map[*step]bool{}}
	b.by = b
	if cache != "" {
		b.by, b.behind = &saver{b}, b.newQueue()
	}
	return b
}

// admits gives an entry its number, unless there is no room for it.
func (b *book) admits(e *entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed[e.step]:
		return errClosed
	case b.bytes > maxPending:
		return engine.WithClass(engine.Transient, errFull)
	}
	if b.behind != nil && !e.step.joined {
		e.step.joined = true
		b.behind.Join()
	}
	b.stamp++
	e.ref = b.stamp
	e.chain.users++
	return nil
}

// note remembers an entry until the end of its message.
func (b *book) note(e *entry, m *engine.Message) {
	e.size = overhead + len(e.chain.key) + e.after.size()
	if e.copy != nil {
		e.size += e.copy.Size()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += e.size
	if e.owed = len(e.origins); e.owed == 0 {
		return
	}
	b.refs[e.ref] = e
	m.StakeOnDelivery(b.by, e.ref)
}

// forget takes the number of an entry away.
func (b *book) forget(e *entry) {
	delete(b.refs, e.ref)
}

// Settle keeps what messages have left that have ended well, and makes that of later ones again without the others.
func (b *book) Settle(_ context.Context, committed, rolledBack []uint64) {
	var over []*entry
	b.mu.Lock()
	for _, ref := range committed {
		over = b.tell(over, ref, true)
	}
	for _, ref := range rolledBack {
		over = b.tell(over, ref, false)
	}
	b.mu.Unlock()
	b.end(over)
}

// tell records one end of a message, and appends its entry if it is the last.
func (b *book) tell(over []*entry, ref uint64, well bool) []*entry {
	e := b.refs[ref]
	if e == nil {
		return over
	}
	e.owed--
	e.failed = e.failed || !well
	if e.owed > 0 {
		return over
	}
	b.forget(e)
	return append(over, e)
}

// Undo makes what messages have left again without them.
func (b *book) Undo(refs []uint64) {
	var over []*entry
	b.mu.Lock()
	for _, ref := range refs {
		if e := b.refs[ref]; e != nil {
			e.failed = true
			b.forget(e)
			over = append(over, e)
		}
	}
	b.mu.Unlock()
	b.end(over)
}

// end settles entries of which the end is known.
func (b *book) end(over []*entry) {
	var chains []*chain
	for _, e := range over {
		c := e.chain
		c.mu.Lock()
		switch {
		case e.state == pending && !e.failed:
			e.state, c.fresh = committed, true
		default:
			e.state = gone
		}
		c.mu.Unlock()
		if !slices.Contains(chains[max(0, len(chains)-few):], c) { // once more does no harm
			chains = append(chains, c)
		}
	}
	for _, c := range chains {
		b.settle(c)
	}
}

// settle saves what a chain leaves, and lets those go on that need no longer wait.
func (b *book) settle(c *chain) {
	c.mu.Lock()
	b.save(c)
	free := c.admit(0)
	c.mu.Unlock()
	for _, e := range free {
		e.goOn()
	}
}

// save saves what a chain leaves; its caller has locked it.
func (b *book) save(c *chain) {
	if value, by := c.fold(); c.fresh && by != nil {
		b.put(c, value, by.TTL) // which keeps it in the book
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= c.freed
	b.unused(c, c.left)
	c.freed, c.left, c.fresh = 0, 0, false
}

// skipped notes that a message could not make its state again.
func (b *book) skipped(err error) {
	if n := b.odd.Add(1); n&(n-1) == 0 { // seldom, when they are many
		b.log.Error("a message whose state had to be worked out again, without one that failed, leaves none", "err", err,
			"times", n)
	}
}

// close forgets what belongs to a step, and waits until the rest is saved.
func (b *book) close(ctx context.Context, s *step) error {
	var over []*entry
	b.mu.Lock()
	b.closed[s] = true
	for _, e := range b.refs {
		if e.step == s {
			e.failed = true
			over = append(over, e)
		}
	}
	for _, e := range over {
		b.forget(e)
	}
	joined := s.joined
	s.joined = false
	b.mu.Unlock()
	b.end(over)
	if joined {
		if err := b.behind.Leave(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.closed, s)
	if b.lost > 0 {
		return fmt.Errorf("cache %s: states of delivered messages that are not in it: %d: %w", b.cache, b.lost, b.why)
	}
	return nil
}
