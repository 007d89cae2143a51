// Package redis is the cache `redis`: it keeps values in Redis, which processes share. Package
// internal/systems/queue/redis manages connections.
package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the redis cache.
type Config struct {
	redis.Connect `yaml:",inline"`
	Prefix        string        `yaml:"prefix" doc:"Prefix of the keys in Redis, which keeps them apart from others, such as flowd:seen:"`
	TTL           time.Duration `yaml:"ttl" check:"min=1ms" doc:"How long a value is kept if its write sets no time; no limit by default."`
}

// Words are words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["default_ttl"], words["key_prefix"] = "write `ttl`", "write `prefix`"
	return words
}

const help = `
Keeps values in Redis, across restarts as far as the server saves them, and for all processes
that reach it, so several can share a dedupe. Values expire by the server's clock. A server
whose maxmemory-policy evicts keys loses values early: for a dedupe, choose noeviction, or a
volatile policy and no ttl. A dedupe needs the right to run scripts (EVAL).

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
	_ engine.Opener      = (*cache)(nil)
	_ engine.Closer      = (*cache)(nil)
	_ engine.Troubled    = (*cache)(nil)
	_ engine.SharedCache = (*cache)(nil)
)

type cache struct {
	Config
	client *redis.Client
	watch  redis.Watch
}

// connections is the maximum number of concurrent calls.
const connections = 32

// Open connects. It does not fail if the server is unreachable.
func (c *cache) Open(ctx context.Context) (err error) {
	if c.client, err = c.Connect.Client(0, connections); err != nil {
		return err
	}
	c.client.Watch = &c.watch
	if err = c.client.Reach(ctx); engine.Passes(err) {
		return nil
	}
	return err
}

// Trouble reports that the server can't be used.
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

// Set writes a value. A value kept for less than a millisecond expires at once.
func (c *cache) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if ttl = cmp.Or(ttl, c.TTL); ttl > 0 && ttl < time.Millisecond {
		return c.Delete(ctx, key)
	}
	args := []any{"set", c.Prefix + key, value}
	if ttl > 0 {
		args = append(args, "px", ttl.Milliseconds())
	}
	_, err := c.client.Ask(ctx, 1, args...)
	return redis.Explain(err, "write to the cache")
}

// swap is a script with a key, its expected value ("": none), its new value ("": none) and how long to keep it, in
// milliseconds. It returns 1, or 0 and the key's current value.
const swap = `local v = redis.call('get', KEYS[1])
if v ~= (ARGV[1] ~= '' and ARGV[1]) then return {0, v} end
if ARGV[2] == '' then redis.call('del', KEYS[1]) else redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3]) end
return {1}`

// pipelined is how many swaps are sent at once.
const pipelined = 1000

// Swap changes values, in pipelines.
func (c *cache) Swap(ctx context.Context, all []engine.CacheSwap) {
	for some := range slices.Chunk(all, pipelined) {
		c.swapSome(ctx, some)
	}
}

func (c *cache) swapSome(ctx context.Context, all []engine.CacheSwap) {
	ctx, cancel := c.client.Within(ctx)
	defer cancel()
	cmds := make([]*goredis.Cmd, len(all))
	for i := range all {
		s := &all[i]
		cmds[i] = redis.Cmd(ctx, 3, "eval", swap, 1, c.Prefix+s.Key, s.Old, s.New, max(1, s.TTL.Milliseconds()))
	}
	c.client.Send(ctx, cmds)
	for i, cmd := range cmds {
		answer, err := cmd.Slice()
		switch {
		case err != nil:
			all[i].Err = redis.Explain(err, "claim a key in the cache")
		case answer[0] == int64(1):
			all[i].Done = true
		case len(answer) > 1 && answer[1] != nil:
			all[i].Found = append([]byte{}, answer[1].(string)...)
		}
	}
}

// Delete deletes a value.
func (c *cache) Delete(ctx context.Context, key string) error {
	_, err := c.client.Ask(ctx, 1, "del", c.Prefix+key)
	return redis.Explain(err, "delete from the cache")
}
