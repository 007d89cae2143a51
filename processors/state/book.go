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
	// maxPending bounds the bytes that a book keeps for unsettled messages. Credits do not bound them: a delivered
	// message stays in the book while an earlier one of its key is not settled.
	maxPending = 256 << 20
	// overhead is what an entry takes besides key, state and message, in bytes.
	overhead = 512
	// wide is the maximum number of parallel calls to a cache.
	wide = 64
	// few is how many chains are compared before a chain is added twice.
	few = 16
)

var (
	errFull = errors.New("too many messages have changed a state and are not delivered, or were delivered while an earlier one of their " +
		"key was not (lower `engine.max_in_flight`)")
	errClosed = errors.New("the step is closed")
)

// book is the state in a store as the pipelines of this process see it. It is the [engine.Settler] of their stakes.
type book struct {
	store store
	cache string // name of the cache; "": the step's own memory
	log   *slog.Logger
	by    engine.Settler // b itself or, with a cache, a saver that makes sources wait for it
	odd   atomic.Int64   // failed recomputations; see skipped

	behind *writebehind.Queue[*saving] // writes to the cache; nil: no cache
	graph  *waits.Graph

	mu     sync.Mutex // guards the fields below; taken after the lock of a chain
	chains map[string]*chain
	refs   map[uint64]*entry // by number, until their messages are settled
	stamp  uint64            // the last number
	bytes  int               // of all entries
	closed map[*step]bool
	lost   int   // states that could not be written to the cache
	why    error // error of the last lost state
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

// admits gives an entry its number, or returns an error if the book is full.
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

// note keeps an entry until its message is settled.
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

// forget removes an entry's number.
func (b *book) forget(e *entry) {
	delete(b.refs, e.ref)
}

// Settle keeps the changes of delivered messages. Changes of failed messages are undone: later states are recomputed
// without them.
func (b *book) Settle(_ context.Context, committed, rolledBack []uint64) {
	var over []*entry
	b.mu.Lock()
	for _, ref := range committed {
		over = b.countSettled(over, ref, true)
	}
	for _, ref := range rolledBack {
		over = b.countSettled(over, ref, false)
	}
	b.mu.Unlock()
	b.settleEntries(over)
}

// countSettled records that one origin of a message is settled. After the last one, it appends the entry to over.
func (b *book) countSettled(over []*entry, ref uint64, well bool) []*entry {
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

// Undo undoes the changes of messages: later states are recomputed without them.
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
	b.settleEntries(over)
}

// settleEntries settles entries whose fate is known.
func (b *book) settleEntries(over []*entry) {
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
		if !slices.Contains(chains[max(0, len(chains)-few):], c) { // settling a chain twice does no harm
			chains = append(chains, c)
		}
	}
	for _, c := range chains {
		b.settle(c)
	}
}

// settle saves the state of a chain, and continues messages that need not wait any more.
func (b *book) settle(c *chain) {
	c.mu.Lock()
	b.save(c)
	free := c.admit(0)
	c.mu.Unlock()
	for _, e := range free {
		e.goOn()
	}
}

// save saves the state of a chain. The caller holds the chain's lock.
func (b *book) save(c *chain) {
	if value, by := c.fold(); c.fresh && by != nil {
		b.put(c, value, by.TTL) // the queued write keeps the chain in the book
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= c.freed
	b.unused(c, c.left)
	c.freed, c.left, c.fresh = 0, 0, false
}

// skipped logs that a message's change could not be recomputed.
func (b *book) skipped(err error) {
	if n := b.odd.Add(1); n&(n-1) == 0 { // after 1, 2, 4, 8 … failures
		b.log.Error("the state was recomputed without a failed message, but a later message's change failed and was skipped", "err", err,
			"times", n)
	}
}

// close undoes the unsettled changes of a step, and waits until the other states are saved.
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
	b.settleEntries(over)
	if joined {
		if err := b.behind.Leave(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.closed, s)
	if b.lost > 0 {
		return fmt.Errorf("cache %s: missing states of delivered messages: %d: %w", b.cache, b.lost, b.why)
	}
	return nil
}
