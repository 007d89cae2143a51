package sqs

import (
	"context"
	"net/http"
	"path"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/aws"
)

// pattern represents all queues whose names match. The input poll reads each of them.
type pattern struct {
	cfg  Config
	env  engine.Env
	http *http.Client // as of input
}

var (
	_ engine.Lister  = (*pattern)(nil)
	_ engine.Traited = (*pattern)(nil)
)

// Traits returns what each of the queues supports. A pattern that ends in .fifo matches only FIFO queues.
func (p *pattern) Traits() engine.Traits { return traitsOf(p.cfg.Queue) }

// Read fails: only the queues can be read.
func (p *pattern) Read(context.Context, *engine.Batch) (engine.Acker, error) {
	return nil, engine.Errorf(engine.Permanent, "%q is a pattern, not a queue (make it a source of an input `poll`)",
		p.cfg.Queue)
}

// List returns the names of the matching queues.
func (p *pattern) List(ctx context.Context) (names []string, err error) {
	session, err := p.cfg.Open(ctx, "", p.http)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	for address, err := range aws.Queues(ctx, session.SQS(), p.cfg.Queue) {
		if err != nil {
			return nil, err
		}
		names = append(names, path.Base(address))
	}
	return names, nil
}

// Only makes an input for one queue.
func (p *pattern) Only(queue string) (engine.Input, error) {
	c := p.cfg
	c.Queue = queue
	made, err := newInput(c, p.env)
	if in, ok := made.(*input); ok {
		in.http = p.http
	}
	return made, err
}
