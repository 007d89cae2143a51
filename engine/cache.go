package engine

import (
	"context"
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
	// Set keeps a value for ttl, or, with 0, for as long as the cache's default.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Add is Set unless there is a value; it returns whether there was none.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (added bool, err error)
	// Delete forgets a key; there may be none.
	Delete(ctx context.Context, key string) error
}

// CacheName is a config field that names a cache of `resources.caches`, directly
// in a plugin's Config: lint knows by it which caches are used.
type CacheName string

// Caches are the kinds of cache for `resources.caches`.
var Caches = NewRegistry[Cache]("cache", nil)
