package engine

import (
	"context"
	"time"
)

// Cache keeps values by key, for steps. It is safe for concurrent use. A plain error is transient.
//
// A Cache belongs to the process: all pipelines that name it share it. It may be an [Opener] and a [Closer]. It is a
// [SharedCache] if other processes use its values, too.
type Cache interface {
	// Get returns the value of a key. ok is false if there is none, or it has expired.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	// Set keeps a value for ttl; 0 means the cache's default.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Delete removes the value of a key, if there is one.
	Delete(ctx context.Context, key string) error
}

// SharedCache is an optional ability of a [Cache]: its values are in a system that other processes use at the same time.
// A step that asks whether a key is new, such as dedupe, claims keys there, so that one process at a time goes on with
// each of them. Without this ability, the values belong to this process alone.
type SharedCache interface {
	// Swap changes the values of keys, in as few round trips as the system allows, and sets the outcome of each swap.
	// Each is atomic, and independent of the others. A key occurs once.
	Swap(ctx context.Context, all []CacheSwap)
}

// CacheSwap changes the value of a key if that is what the caller expects.
type CacheSwap struct {
	Key string
	Old []byte        // the expected value; nil: the key has none, or it has expired
	New []byte        // the value to write; nil: the key is deleted
	TTL time.Duration // how long New is kept; more than zero

	Done  bool   // the value was as expected, and has been changed
	Found []byte // otherwise: the value that the key has; nil: none
	Err   error  // it is not known whether the value has been changed; a plain error is transient
}

// CacheName is the type of a field of a plugin's Config that names a cache of `resources.caches`. By this type lint knows
// which caches are used.
type CacheName string

// Caches are the kinds of cache for `resources.caches`.
var Caches = NewRegistry[Cache]("cache", nil)
