package cachetest

import (
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Away is a cache that is away for a while: writes fail, and perhaps reads, too. Its fields are set before it is used.
type Away struct {
	engine.Cache
	From, Until time.Time
	Reads       bool // they fail, too
}

var errAway = errors.New("connection refused")

func (u *Away) away() error {
	if now := time.Now(); !now.Before(u.From) && now.Before(u.Until) {
		return errAway
	}
	return nil
}

// Get reads a value.
func (u *Away) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := u.away(); err != nil && u.Reads {
		return nil, false, err
	}
	return u.Cache.Get(ctx, key)
}

// Set writes a value.
func (u *Away) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := u.away(); err != nil {
		return err
	}
	return u.Cache.Set(ctx, key, value, ttl)
}

// Delete forgets a key.
func (u *Away) Delete(ctx context.Context, key string) error {
	if err := u.away(); err != nil {
		return err
	}
	return u.Cache.Delete(ctx, key)
}

// SharedAway is an Away of a cache that other processes use, too.
type SharedAway struct{ *Away }

// Swap changes values.
func (u SharedAway) Swap(ctx context.Context, all []engine.CacheSwap) {
	if err := u.away(); err != nil {
		for i := range all {
			all[i].Err = err
		}
		return
	}
	u.Cache.(engine.SharedCache).Swap(ctx, all)
}
