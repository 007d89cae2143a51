package rabbitmq

import (
	"context"
	"path"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
)

// pattern lists all queues whose names match. The input poll reads each of them.
type pattern struct {
	cfg Config
	env engine.Env
}

var (
	_ engine.Lister  = (*pattern)(nil)
	_ engine.Traited = (*pattern)(nil)
)

// checkPattern reports an invalid pattern, and fields that can't work with one.
func (c *Config) checkPattern(report func(path, message, remedy string)) {
	if !c.Management.IsZero() && amqp.CheckManagement(c.Management.Reveal()) != nil {
		report("management", "is not a URL", "write http://HOST:15672, or https://HOST:15671")
	}
	if _, isPattern := amqp.QueueName(c.Queue); !isPattern {
		return
	}
	if _, err := path.Match(c.Queue, ""); err != nil {
		report("queue", "is not a valid pattern of names",
			`close the [, or write \ before it if it is part of the name`)
	}
	if c.Declare != nil {
		report("declare", "a pattern matches existing queues, so it can't create one",
			`remove it, or name one queue, with \ before * ? and [`)
	}
}

// Traits returns the traits of each of the queues.
func (p *pattern) Traits() engine.Traits { return p.cfg.Traits() }

// Read always fails: only the queues that List returns can be read.
func (p *pattern) Read(context.Context, *engine.Batch) (engine.Acker, error) {
	return nil, engine.Errorf(engine.Permanent, "%q is a pattern, not a queue (make it a source of an input `poll`)",
		p.cfg.Queue)
}

// List returns the names of the queues that match.
func (p *pattern) List(ctx context.Context) ([]string, error) {
	return p.cfg.Queues(ctx, p.cfg.Management, p.cfg.Queue, p.cfg.stream())
}

// Only returns an input for one queue.
func (p *pattern) Only(queue string) (engine.Input, error) {
	c, env := p.cfg, p.env
	c.Queue = queue
	env.Name += "/" + queue
	return newReader(c, env), nil
}
