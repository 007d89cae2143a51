package state

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

// acquireChains returns the chains of keys, and reads the states of new ones. The caller must release them.
func (b *book) acquireChains(ctx context.Context, keys []string) []*chain {
	chains := make([]*chain, len(keys))
	var news []*chain
	b.mu.Lock()
	for i, key := range keys {
		c := b.chains[key]
		if c == nil {
			c = &chain{book: b, key: key}
			b.chains[key] = c
			if b.cache == "" {
				b.load(ctx, c)
			} else {
				c.ready = make(chan struct{})
				news = append(news, c)
			}
		}
		c.users++
		chains[i] = c
	}
	b.mu.Unlock()
	call.Beside(wide, len(news), func(i int) {
		c := news[i]
		b.load(ctx, c)
		if c.err != nil {
			b.mu.Lock()
			delete(b.chains, c.key) // the next call tries again
			b.mu.Unlock()
		}
		close(c.ready)
	})
	return chains
}

// load reads the state of a chain.
func (b *book) load(ctx context.Context, c *chain) {
	c.base, c.err = b.read(ctx, c.key)
	c.last = c.base
}

func (b *book) read(ctx context.Context, key string) (o object, err error) {
	defer engine.Recovered(&err)
	text, ok, err := b.store.Get(ctx, key)
	if err != nil || !ok {
		return nil, writebehind.Held(err)
	}
	return parse(text)
}

// release releases chains from acquireChains.
func (b *book) release(chains []*chain) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range chains {
		b.unused(c, 1)
	}
}

// unused subtracts n users. A chain without users is removed from the book.
func (b *book) unused(c *chain, n int) {
	if c.users -= n; c.users == 0 && b.chains[c.key] == c {
		delete(b.chains, c.key)
	}
}
