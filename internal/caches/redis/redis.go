// Package redis is the cache `redis`: it keeps values in Redis, for all processes that reach it. Connections are the
// business of internal/queue/redis.
package redis

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the redis cache.
type Config struct {
	redis.Connect `yaml:",inline"`
	Prefix        string        `yaml:"prefix" doc:"Prefix of the keys in Redis, which keeps them apart from others, such as flowd:seen:"`
	TTL           time.Duration `yaml:"ttl" check:"min=1ms" doc:"How long a value is kept if its write sets no time; no limit by default."`
}

// Words are what users of other systems write.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["default_ttl"], words["key_prefix"] = "write `ttl`", "write `prefix`"
	return words
}

const help = `
Keeps values in Redis, across restarts as far as the server saves them, and for all processes
that reach it, so several can share a dedupe. Values expire by the server's clock. A server
whose maxmemory-policy evicts keys loses values early: for a dedupe, choose noeviction, or a
volatile policy and no ttl.

    processors:
      - dedupe: {key: id, window: 24h, cache: seen}
    resources:
      caches:
        seen: {redis: {url: "redis://localhost:6379", prefix: "seen:"}}
`

func init() {
	engine.Register(engine.Caches, "redis", help, Config{Connect: redis.Defaults},
		func(c Config, _ engine.Env) (engine.Cache, error) { return &cache{Config: c}, nil })
}

var (
	_ engine.Opener   = (*cache)(nil)
	_ engine.Closer   = (*cache)(nil)
	_ engine.Troubled = (*cache)(nil)
)

type cache struct {
	Config
	client *redis.Client
	watch  redis.Watch
}

// connections is how many calls are carried out at once.
const connections = 32

// Open connects. A server that can't be reached is waited for.
func (c *cache) Open(ctx context.Context) (err error) {
	if c.client, err = c.Connect.Client(0, connections); err != nil {
		return err
	}
	c.client.Watch = &c.watch
	if err = c.client.Reach(ctx); redis.Passes(err) {
		return nil
	}
	return err
}

// Trouble says that the server can't be used.
func (c *cache) Trouble() *engine.Trouble { return c.watch.Trouble() }

// Close closes the connections.
func (c *cache) Close(context.Context) error {
	if c.client == nil {
		return nil
	}
	return c.client.Close()
}

// Get reads a value.
func (c *cache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	v, err := c.client.Ask(ctx, 1, "get", c.Prefix+key)
	if errors.Is(err, goredis.Nil) {
		return nil, false, nil
	}
	text, ok := v.(string)
	return []byte(text), ok, redis.Explain(err, "read from the cache")
}

// write writes a value, on a condition that there may be.
func (c *cache) write(ctx context.Context, key string, value []byte, ttl time.Duration, condition ...any) error {
	args := []any{"set", c.Prefix + key, value}
	if ttl = cmp.Or(ttl, c.TTL); ttl > 0 {
		args = append(args, "px", max(1, ttl.Milliseconds()))
	}
	_, err := c.client.Ask(ctx, 1, append(args, condition...)...)
	return err
}

// Set writes a value. What is kept for less than a millisecond is gone at once.
func (c *cache) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if ttl = cmp.Or(ttl, c.TTL); ttl > 0 && ttl < time.Millisecond {
		return c.Delete(ctx, key)
	}
	return redis.Explain(c.write(ctx, key, value, ttl), "write to the cache")
}

// Add writes a value unless there is one.
func (c *cache) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	err := c.write(ctx, key, value, ttl, "nx")
	if errors.Is(err, goredis.Nil) {
		return false, nil
	}
	return err == nil, redis.Explain(err, "write to the cache")
}

// Delete deletes a value.
func (c *cache) Delete(ctx context.Context, key string) error {
	_, err := c.client.Ask(ctx, 1, "del", c.Prefix+key)
	return redis.Explain(err, "delete from the cache")
}
