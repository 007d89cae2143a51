// Package ratelimit is the processor `rate_limit`: it limits the messages per period. Start at
// [engine.RateLimitStep], its configuration.
package ratelimit

import "github.com/flowd-io/flowd/engine"

const help = `
Limits how many messages pass per period; the others wait in order of arrival, while
messages of other keys and other steps continue. With on_limit: drop, the others are
dropped instead, which throttles.

    processors:
      - rate_limit: {messages: 10, per: 1m, kind: bucket, burst: 3, key: customer}
      - rate_limit: api
      - rate_limit: {messages: 1, per: 10s, key: sensor, on_limit: drop}
    resources:
      rate_limits:
        api: {messages: 500, per: 1s}

All that name a limit share it, even across pipelines; its key is evaluated here. With
key, each value has its own limit; messages whose key is nil share one. A key that
can't be evaluated fails its message. Inputs and outputs have their own rate_limit.
`

func init() {
	engine.Register(engine.Processors, "rate_limit", help, engine.RateLimitStep{}, build)
}

func build(c engine.RateLimitStep, env engine.Env) (engine.Processor, error) { return env.RateLimit(c) }
