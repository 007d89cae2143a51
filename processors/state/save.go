package state

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/call"
)

// store keeps states: an [engine.Cache].
type store interface {
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, key string) error
}

// saver lets sources wait until states are in the cache.
type saver struct{ *book }

var (
	_ engine.Settler = (*book)(nil)
	_ engine.Undoer  = (*book)(nil)
	_ engine.Saver   = (*saver)(nil)
)

// Save calls then once all that was committed before is in the cache, or given up.
func (s *saver) Save(then func()) { s.saved(then) }

// round is what is saved together.
type round struct {
	saves []*saving
	then  []func() // called afterwards
}

// saving is a state on its way to the store.
type saving struct {
	chain *chain
	value object
	ttl   time.Duration
	lost  error
}

// put has a state stored; its caller has locked the chain.
func (b *book) put(c *chain, value object, ttl time.Duration) {
	s := &saving{chain: c, value: value, ttl: ttl}
	if b.cache == "" {
		_ = s.make(context.Background(), b.store) // memory has no errors: a state is smaller than it
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
	b.next.saves = append(b.next.saves, s)
	b.start()
}

func (s *saving) make(ctx context.Context, to store) (err error) {
	defer engine.Recovered(&err)
	if len(s.value) == 0 {
		return to.Delete(ctx, s.chain.key)
	}
	return to.Set(ctx, s.chain.key, s.value.json(), s.ttl)
}

// saved calls then once all that was put before is stored, or given up.
func (b *book) saved(then func()) {
	b.mu.Lock()
	if !b.busy && len(b.next.saves) == 0 {
		b.mu.Unlock()
		then()
		return
	}
	b.next.then = append(b.next.then, then)
	b.start()
	b.mu.Unlock()
}

// start saves, in a goroutine that ends when there is nothing left. The lock is held.
func (b *book) start() {
	if !b.busy {
		b.busy = true
		go b.work()
	}
}

func (b *book) work() {
	for r := b.round(); r != nil; r = b.round() {
		call.Insist(r.saves, wide, beside,
			func(ctx context.Context, s *saving) error { return s.make(ctx, b.store) },
			func(s *saving, err error) { s.lost = err })
		b.made(r)
		for _, then := range r.then {
			then()
		}
	}
}

// round is what is to be saved now, or nil.
func (b *book) round() *round {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.next
	if len(r.saves) == 0 && len(r.then) == 0 {
		b.busy = false
		return nil
	}
	b.next = &round{}
	for _, s := range r.saves {
		s.chain.next = nil
	}
	return r
}

func beside(n int, f func(i int)) { call.Beside(wide, n, f) }

// made ends a round.
func (b *book) made(r *round) {
	b.mu.Lock()
	before := b.lost
	for _, s := range r.saves {
		if s.lost != nil {
			b.lost, b.why = b.lost+1, s.lost
		}
		b.unused(s.chain, 1)
	}
	lost, all, why := b.lost-before, b.lost, b.why
	b.mu.Unlock()
	if lost > 0 {
		b.log.Error("states given up", "cache", b.cache, "states", lost, "in_all", all, "err", why)
	}
}
