// Package redispubsub publishes messages on channels of Redis. What the outputs for Redis share is in
// internal/systems/queue/redis.
package redispubsub

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
	Channel       expr.Template `yaml:"channel,main" check:"required" doc:"Channel to publish to."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	redis.CheckKey("channel", &c.Channel, report)
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["key"], words["channels"], words["topic"] = "write `channel`", "write `channel`", "write `channel`"
	return words
}

const about = `
Publishes payloads to Redis channels, each write in one pipeline.

Redis delivers a message to current subscribers, and keeps nothing: one that nobody receives
counts as delivered. For messages that must not be lost, use redis_stream.

    outputs:
      news: {redis_pubsub: {url: "redis://localhost:6379", channel: "news.$(topic)"}}
`

func init() {
	engine.Register(engine.Outputs, "redis_pubsub", about, Config{Connect: redis.Defaults}, newOutput)
}

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	return &redis.Output{Connect: &c.Connect, Key: &c.Channel, What: "channel",
		Command: func(ctx context.Context, key string, m *engine.Message) (*goredis.Cmd, error) {
			return redis.Cmd(ctx, 1, "publish", key, m.Bytes()), nil
		}}, nil
}
