// Package redislist pushes messages onto lists of Redis. What the outputs for Redis share is in internal/systems/queue/redis.
package redislist

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the output.
type Config struct {
	redis.Connect `yaml:",inline"`
	Key           expr.Template `yaml:"key,main" check:"required" doc:"List to push onto."`
	Side          string        `yaml:"side" check:"oneof=left|right" doc:"End of the list to push onto: right for readers that take from the left, and vice versa."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	redis.CheckKey("key", &c.Key, report)
}

const about = `
Pushes payloads onto Redis lists (RPUSH or LPUSH), each write in one pipeline.

A list has no room for metadata. A message that Redis refuses fails alone. While the server
can't be reached, is loading, is a replica after a failover, or is out of memory (maxmemory),
the output is held and nothing is lost. If the connection breaks before the response, what was
sent is sent again, and may be there twice.

    outputs:
      jobs: {redis_list: {url: "redis://localhost:6379", key: jobs}}
`

func init() {
	engine.Register(engine.Outputs, "redis_list", about, Config{Connect: redis.Defaults, Side: "right"}, newOutput)
}

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	push := map[string]string{"left": "lpush", "right": "rpush"}[c.Side]
	return &redis.Output{Connect: &c.Connect, Key: &c.Key, What: "list",
		Command: func(ctx context.Context, key string, m *engine.Message) (*goredis.Cmd, error) {
			return redis.Cmd(ctx, 1, push, key, m.Bytes()), nil
		}}, nil
}
