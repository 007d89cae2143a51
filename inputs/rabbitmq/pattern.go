package rabbitmq

import (
	"context"
	"path"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
)

// pattern represents all queues whose names match; the poll input reads each.
type pattern struct {
	cfg Config
	env engine.Env
}

var (
	_ engine.Lister  = (*pattern)(nil)
	_ engine.Traited = (*pattern)(nil)
)

// checkPattern reports what can't work with a pattern, or without one.
func (c *Config) checkPattern(report func(path, message, remedy string)) {
	if !c.Management.IsZero() && amqp.CheckManagement(c.Management.Reveal()) != nil {
		report("management", "is not a URL", "write http://HOST:15672, or https://HOST:15671")
	}
	if _, isPattern := amqp.Named(c.Queue); !isPattern {
		return
	}
	if _, err := path.Match(c.Queue, ""); err != nil {
		report("queue", "is not a valid pattern of names",
			`close the [, or write \ before it if it is part of the name`)
	}
	if c.Declare != nil {
		report("declare", "a pattern matches existing queues: there is none to create",
			`remove it, or name one queue, with \ before * ? and [`)
	}
}

// Traits are those of each of the queues.
func (p *pattern) Traits() engine.Traits { return p.cfg.Traits() }

// Read is not for use: the queues are read.
func (p *pattern) Read(context.Context, *engine.Batch) (engine.Acker, error) {
	return nil, engine.Errorf(engine.Permanent, "%q is a pattern, not a queue (make it a source of an input `poll`)",
		p.cfg.Queue)
}

// List gives the names of the queues that match.
func (p *pattern) List(ctx context.Context) ([]string, error) {
	return p.cfg.Queues(ctx, p.cfg.Management, p.cfg.Queue, p.cfg.stream())
}

// Only makes an input for one queue.
func (p *pattern) Only(queue string) (engine.Input, error) {
	c, env := p.cfg, p.env
	c.Queue = queue
	env.Name += "/" + queue
	return newReader(c, env), nil
}
