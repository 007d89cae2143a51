// Package twophase holds writes to caches back until the messages that made them
// have been delivered, and forgets those of messages that were not. The steps of
// the same pipeline see such pending writes at once. In a cache that other processes use,
// it claims keys before it decides that they are new. Start at [Join].
package twophase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/waits"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

const (
	// maxPending bounds what the pending writes of one pipeline hold, in bytes.
	// Those of single messages are bounded by the pipeline's credits; those of
	// the parts of one endless message are not.
	maxPending = 256 << 20
	// overhead is what a pending write takes in addition to its key and value, in bytes.
	overhead = 256
	// keptSlots is how many unused writes a book keeps for later.
	keptSlots = 1 << 12
	// epochs is how many counters show whether a key has moved to the cache.
	epochs = 1 << 10
)

// errFull fails messages whose writes find no room.
var errFull = errors.New(
	"too many cache writes wait for their messages to be delivered (lower `engine.max_in_flight`, or split into fewer parts)")

// errClosed is met by a call that was left behind when its pipeline ended.
var errClosed = errors.New("the step is closed")

// Store is what keeps the values: an [engine.Cache], or a step's own memory.
type Store interface {
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, key string) error
}

// book has the pending writes of one pipeline, to all its caches. They share one
// lock because messages may wait for each other across caches.
type book struct {
	mu      sync.Mutex // guards all state of this package, except epochs
	named   map[string]*overlay
	slots   []*write // by the low half of ref
	free    []uint32 // of slots
	stamp   uint64   // the high half of the last ref
	bytes   int      // of pending writes
	graph   *waits.Graph
	touched []*chain        // changed since they were reviewed
	origins []engine.Origin // scratch
}

// overlay is a cache as the steps of one pipeline see it.
type overlay struct {
	*book
	cache  Store
	name   string
	quick  bool // a call never takes long
	log    *slog.Logger
	chains map[string]*chain
	spare  []*chain
	epochs [epochs]atomic.Uint32 // by hash of key: how many writes have moved to the cache
	claims

	queue   []*write // committed, and to be put into behind
	behind  *writebehind.Queue[*write]
	backlog int           // committed writes that are not in the cache
	round   chan struct{} // closed when some have been made
	lost    int           // writes that are not in the cache
}

// Use is one step's use of a cache. All methods may be called at once from any
// goroutine. It is the [engine.Settler] of the step's writes.
type Use struct {
	o      *overlay
	by     engine.Settler // of its writes
	inside bool           // the step runs inside of another one
	closed bool
	joined bool  // it has writes in the overlay's queue, or may have
	lost   int   // committed writes that are not in the cache
	why    error // of the last of them
}

// pipeline is the key of its book.
type pipeline string

// Join returns a use of the cache of a name, or, without a name, of a store in memory
// that no other step knows.
func Join(env engine.Env, name string, cache Store) *Use {
	graph := waits.Of(env.Shared)
	b := engine.Common(env.Shared, pipeline(env.Pipeline), func() *book {
		return &book{named: map[string]*overlay{}, graph: graph}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.named[name]; o != nil && o.cache == cache {
		return o.use(env.Inside)
	}
	o := &overlay{
		book: b, cache: cache, name: cmp.Or(name, env.Name), quick: name == "",
		log:    cmp.Or(env.Log, slog.New(slog.DiscardHandler)),
		chains: map[string]*chain{}, round: make(chan struct{}),
	}
	o.behind = &writebehind.Queue[*write]{Name: o.name, Log: o.log, Width: wide, Begin: o.begin, Spread: o.spread,
		Write: o.one, Refuse: func(w *write, err error) { w.lost = err }, End: o.made}
	if name != "" {
		b.named[name] = o
		o.claims = newClaims(env.Shared, cache)
	}
	return o.use(env.Inside)
}

func (o *overlay) use(inside bool) *Use {
	u := &Use{o: o, inside: inside}
	if o.users++; o.users == 1 && o.local != nil {
		o.local.join(1)
	}
	if u.by = u; !o.quick { // what is lost in a crash anyhow is not waited for
		u.by = &saver{u}
	}
	return u
}

// Close forgets what is still pending, since its end will no longer be reported, and waits
// until everything that was committed is in the cache. It is an error if something is not.
func (u *Use) Close(ctx context.Context) error {
	o := u.o
	o.mu.Lock()
	u.closed = true
	for _, w := range o.slots {
		if w.by == u && w.state != committed {
			o.withdraw(w)
			o.release(w)
		}
	}
	replies, joined := o.review(), u.joined
	u.joined = false
	o.mu.Unlock()
	o.answer(ctx, replies)
	var err error
	if joined {
		err = o.behind.Leave(ctx)
	}
	o.leave(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if u.lost > 0 {
		return fmt.Errorf("cache %s: writes of delivered messages that are not in it: %d: %w", o.name, u.lost, u.why)
	}
	return nil
}

// Trouble says that the cache is away.
func (u *Use) Trouble() *engine.Trouble { return u.o.behind.Trouble() }

// room waits while too much is on its way to the cache: what is committed holds
// no credits any more, so nothing else would bound it.
func (u *Use) room(ctx context.Context) error {
	for {
		u.o.mu.Lock()
		backlog, round, closed := u.o.backlog, u.o.round, u.closed
		u.o.mu.Unlock()
		if closed {
			return errClosed
		}
		if err := u.o.behind.Outage(); err != nil || backlog < maxBacklog {
			return err
		}
		select {
		case <-round:
		case <-ctx.Done():
			return &engine.Error{Class: engine.Transient, Holds: true,
				Err: fmt.Errorf("cache %s is too slow: %d writes wait for it: %w", u.o.name, backlog, ctx.Err())}
		}
	}
}

// note takes a free write, or makes one, for a message of these origins.
func (u *Use) note(k kind, c *chain, value []byte, ttl time.Duration, origins []engine.Origin) *write {
	b := u.o.book
	if !u.joined {
		u.joined = true
		u.o.behind.Join()
	}
	b.stamp++
	var at uint32
	if n := len(b.free); n > 0 {
		at, b.free = b.free[n-1], b.free[:n-1]
	} else {
		at = uint32(len(b.slots))
		b.slots = append(b.slots, &write{})
	}
	w := b.slots[at]
	w.by, w.chain, w.kind, w.value, w.ttl = u, c, k, value, ttl
	w.ref = b.stamp<<32 | uint64(at)
	w.origins = append(w.origins[:0], origins...)
	w.owed = len(origins)
	w.size = overhead + len(c.key) + len(value)
	b.bytes += w.size
	return w
}

// find returns the write of a ref, or nil when it is gone.
func (b *book) find(ref uint64) *write {
	if at := uint32(ref); int(at) < len(b.slots) && b.slots[at].ref == ref {
		return b.slots[at]
	}
	return nil
}

// release gives a write's slot back; nothing refers to it any more.
func (b *book) release(w *write) {
	b.bytes -= w.size
	at := uint32(w.ref)
	*w = write{origins: w.origins[:0]}
	b.free = append(b.free, at)
	if len(b.free) == len(b.slots) && len(b.slots) > keptSlots {
		b.slots, b.free = nil, nil
	}
}
