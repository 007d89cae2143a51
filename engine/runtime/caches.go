package runtime

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowd-io/flowd/engine"
)

// cacheKey is the name of a shared cache, and a text of its configuration.
type cacheKey struct{ name, print string }

// sharedCache is a cache that several plans of a process use: the first opens
// it, the last closes it.
type sharedCache struct {
	engine.Cache
	failed error // the cache can't be built; it is reported to each that names it

	mu    sync.Mutex // guards the field below, and opening and closing
	users int
}

// Open opens the cache for its first user.
func (c *sharedCache) Open(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.Cache.(engine.Opener); ok && c.users == 0 {
		if err := o.Open(ctx); err != nil {
			return err
		}
	}
	c.users++
	return nil
}

// Close closes the cache after its last user.
func (c *sharedCache) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if o, ok := c.Cache.(engine.Closer); ok && c.users == 0 {
		return o.Close(ctx)
	}
	return nil
}

// cache finds or makes the cache of a name; the plan opens and closes it.
func (b *builder) cache(name string) (engine.Cache, error) {
	spec, ok := b.options.Caches[name]
	if !ok {
		return nil, fmt.Errorf("there is no cache %q (define it under `resources.caches`)", name)
	}
	c := engine.Common(b.options.Shared, cacheKey{name, b.options.Prints[name]}, func() *sharedCache {
		cache, err := spec.Build(b.named(name))
		return &sharedCache{Cache: cache, failed: err}
	})
	if c.failed != nil {
		return nil, c.failed
	}
	b.plan.Plugins.AddOnce("cache "+name, c)
	return c, nil
}
