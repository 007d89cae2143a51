package state

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

// store keeps states. [engine.Cache] implements it.
type store interface {
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, key string) error
}

// saver makes sources wait until states are in the cache.
type saver struct{ *book }

var (
	_ engine.Settler = (*book)(nil)
	_ engine.Undoer  = (*book)(nil)
	_ engine.Saver   = (*saver)(nil)
)

// Save calls then once everything committed so far is in the cache, or the cache has rejected it.
func (s *saver) Save(then func()) { s.behind.Saved(then) }

// saving is a state on its way to the store.
type saving struct {
	chain *chain
	value object
	ttl   time.Duration
	lost  error // why the store does not have it
}

// put queues a state for writing. The caller holds the chain's lock.
func (b *book) put(c *chain, value object, ttl time.Duration) {
	s := &saving{chain: c, value: value, ttl: ttl}
	if b.cache == "" {
		_ = s.make(context.Background(), b.store) // memory can't fail: a state is smaller than its limit
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.next != nil {
		c.next.value, c.next.ttl = value, ttl
		return
	}
	c.next = s
	c.users++
	b.behind.Put(s)
}

func (s *saving) make(ctx context.Context, to store) (err error) {
	defer engine.Recovered(&err)
	if len(s.value) == 0 {
		return to.Delete(ctx, s.chain.key)
	}
	return to.Set(ctx, s.chain.key, s.value.json(), s.ttl)
}

// newQueue makes the queue that writes the states of a book.
func (b *book) newQueue() *writebehind.Queue[*saving] {
	return &writebehind.Queue[*saving]{Name: b.cache, Log: b.log, Width: wide, Begin: b.saves,
		Spread: func(n int, write func(i int)) { call.Beside(wide, n, write) },
		Write:  func(ctx context.Context, s *saving) error { return s.make(ctx, b.store) },
		Refuse: func(s *saving, err error) { s.lost = err }, End: b.saved}
}

// saves begins a round. States that change from now on belong to the next round.
func (b *book) saves(round []*saving) []*saving {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range round {
		s.chain.next = nil
	}
	return round
}

// saved ends a round.
func (b *book) saved(round []*saving) {
	b.mu.Lock()
	before := b.lost
	for _, s := range round {
		if s.lost != nil {
			b.lost, b.why = b.lost+1, s.lost
		}
		b.unused(s.chain, 1)
	}
	lost, all, why := b.lost-before, b.lost, b.why
	b.mu.Unlock()
	if lost > 0 {
		b.log.Error("states of delivered messages are not in the cache", "cache", b.cache, "states", lost, "in_all", all,
			"err", why)
	}
}
