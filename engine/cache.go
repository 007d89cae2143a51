package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Cache keeps values by key, for steps. All methods may be called at once from
// any goroutine. A plain error is transient.
//
// A Cache belongs to the process: all pipelines that name it share it. It may be
// an [Opener] and a [Closer].
type Cache interface {
	// Get is the value of a key; ok is false when there is none, or it is too old.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	// Set keeps a value for ttl, or, with 0, for as long as the cache does by itself.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Add is Set unless there is a value; it tells whether there was none.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (added bool, err error)
	// Delete forgets a key; there may be none.
	Delete(ctx context.Context, key string) error
}

// CacheName is a config field that names a cache of `resources.caches`, directly
// in a plugin's Config: lint knows by it which caches are used.
type CacheName string

// Caches are the kinds of cache for `resources.caches`.
var Caches = newRegistry[Cache]("cache", nil)

// Cache is a cache of `resources.caches`, for a plugin's build function. The
// engine opens it before any step works and closes it after all pipelines have
// ended.
func (e Env) Cache(name string) (Cache, error) {
	if e.builder == nil {
		return nil, fmt.Errorf("there is no cache %q: caches belong to pipelines", name)
	}
	return e.builder.cache(name)
}

// cacheKey is the name of a shared cache, and a text of its configuration.
type cacheKey struct{ name, print string }

// sharedCache is a cache that several plans of a process use: the first opens
// it, the last closes it.
type sharedCache struct {
	Cache
	failed error // the cache can't be built; it is reported to each who names it

	mu    sync.Mutex // guards the field below, and opening and closing
	users int
}

// Open opens the cache for its first user.
func (c *sharedCache) Open(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.Cache.(Opener); ok && c.users == 0 {
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
	if o, ok := c.Cache.(Closer); ok && c.users == 0 {
		return o.Close(ctx)
	}
	return nil
}

// cache finds or makes the cache of a name; the plan opens and closes it.
func (b *builder) cache(name string) (Cache, error) {
	spec, ok := b.options.Caches[name]
	if !ok {
		return nil, fmt.Errorf("there is no cache %q (define it under `resources.caches`)", name)
	}
	c := Common(b.options.Shared, cacheKey{name, b.options.Prints[name]}, func() *sharedCache {
		cache, err := spec.Build(b.named(name))
		return &sharedCache{Cache: cache, failed: err}
	})
	if c.failed != nil {
		return nil, c.failed
	}
	part := part{"cache " + name, c}
	for _, x := range b.plan.plugins {
		if x.plugin == part.plugin {
			return c, nil
		}
	}
	b.plan.plugins = append(b.plan.plugins, part)
	return c, nil
}
