// Package twophase holds writes to caches back until the messages that made them are delivered, and drops them if
// messages fail. Steps of the same pipeline see pending writes at once. If other processes use the cache, it claims
// keys before it decides that they are new. Start at [Join].
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
	// maxPending bounds the memory of the pending writes of one pipeline, in bytes. Credits bound those of single
	// messages, but not those of the parts of one endless message.
	maxPending = 256 << 20
	// overhead is the memory of a pending write besides its key and value, in bytes.
	overhead = 256
	// keptSlots is how many unused writes a book keeps for reuse.
	keptSlots = 1 << 12
	// epochs is the number of counters that show whether a key has moved to the cache.
	epochs = 1 << 10
)

// errFull is the error of messages whose writes find no room.
var errFull = errors.New(
	"too many cache writes wait for their messages to be delivered (lower `engine.max_in_flight`, or split into fewer parts)")

// errClosed is the error of a call that was left behind when its pipeline ended.
var errClosed = errors.New("the step is closed")

// Store keeps the values: an [engine.Cache], or a step's own memory.
type Store interface {
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, key string) error
}

// book has the pending writes of one pipeline to all its caches. They share a lock since messages may wait for each
// other across caches.
type book struct {
	mu      sync.Mutex // guards all state of this package, except epochs
	named   map[string]*overlay
	slots   []*write // indexed by the low half of a ref
	free    []uint32 // unused indexes of slots
	stamp   uint64   // high half of the last ref
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
	quick  bool // calls never take long
	log    *slog.Logger
	chains map[string]*chain
	spare  []*chain
	epochs [epochs]atomic.Uint32 // by hash of key: writes that have moved to the cache
	claims

	queue   []*write // committed writes not passed to behind yet
	behind  *writebehind.Queue[*write]
	backlog int           // committed writes that are not in the cache yet
	round   chan struct{} // closed when some writes have been made
	lost    int           // writes that could not be made
}

// Use is one step's use of a cache. It is safe for concurrent use. It is the [engine.Settler] of the step's writes.
type Use struct {
	o      *overlay
	by     engine.Settler // the Settler of its writes
	inside bool           // the step is inside another one
	closed bool
	joined bool  // it may have writes in the overlay's queue
	lost   int   // committed writes that could not be made
	why    error // error of the last of them
}

// pipeline is the key of a pipeline's book.
type pipeline string

// Join returns a use of the cache with a name or, if name is empty, of a private store in memory.
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
	if u.by = u; !o.quick { // nobody waits for writes that a crash would lose anyway
		u.by = &saver{u}
	}
	return u
}

// Close drops pending writes, since their fate is not reported any more, and waits until all committed writes are in
// the cache. It returns an error if one is not.
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
		return fmt.Errorf("cache %s: missing writes of delivered messages: %d: %w", o.name, u.lost, u.why)
	}
	return nil
}

// Trouble reports that the cache is down.
func (u *Use) Trouble() *engine.Trouble { return u.o.behind.Trouble() }

// room waits while too many writes are on their way to the cache: committed writes hold no credits, so nothing else
// bounds them.
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

// note takes an unused write, or makes one, for a message with these origins.
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

// find returns the write of a ref, or nil if it is gone.
func (b *book) find(ref uint64) *write {
	if at := uint32(ref); int(at) < len(b.slots) && b.slots[at].ref == ref {
		return b.slots[at]
	}
	return nil
}

// release frees a write's slot. Nothing refers to it any more.
func (b *book) release(w *write) {
	b.bytes -= w.size
	at := uint32(w.ref)
	*w = write{origins: w.origins[:0]}
	b.free = append(b.free, at)
	if len(b.free) == len(b.slots) && len(b.slots) > keptSlots {
		b.slots, b.free = nil, nil
	}
}
