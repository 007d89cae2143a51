package kafka

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type output struct {
	cfg   Config
	log   *slog.Logger
	name  string
	topic string // the one to which all messages go; "": there are others

	client *kafka.Client
	tx     *kafka.Session // writes instead of client; nil: messages are delivered at least once

	mu       sync.Mutex // guards the fields below
	declared map[string]bool
	own      []*own // all clients, to close
	idle     []*own // clients that no write uses
}

var (
	_ engine.Opener   = (*output)(nil)
	_ engine.Closer   = (*output)(nil)
	_ engine.Prober   = (*output)(nil)
	_ engine.Traited  = (*output)(nil)
	_ engine.Troubled = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, log: env.Log, name: strings.Trim(env.Pipeline+"."+env.Name, "."), declared: map[string]bool{}}
	o.topic, _ = c.Topic.Const()
	if env.ExactlyOnce {
		o.tx = kafka.SessionOf(env.Shared, env.Pipeline)
	}
	return o, nil
}

// Traits says that a partition keeps the order of a write, and that after a message that can't be sent, no message with the same
// order key is sent.
func (o *output) Traits() engine.Traits { return engine.Traits{Sequential: true, Bulk: true} }

// Open connects, and creates the topic if that is configured.
func (o *output) Open(ctx context.Context) (err error) {
	if o.tx != nil {
		o.tx.SetOptions(append(o.cfg.producing(), gated...)...)
	}
	if o.client, err = o.cfg.Client(o.log, o.name, o.cfg.options()...); err != nil {
		return err
	}
	if err = o.client.Reach(ctx); err == nil && o.topic != "" {
		err = o.declare(ctx, o.topic)
	}
	if err != nil {
		o.client.Close()
	}
	return err
}

// Trouble reports that no broker can be reached. A write waits for one until its deadline.
func (o *output) Trouble() *engine.Trouble {
	if o.client == nil {
		return nil
	}
	return o.client.Link.Trouble("messages for it wait")
}

// Close closes the connections. Records without a confirmation have failed.
func (o *output) Close(context.Context) error {
	o.mu.Lock()
	all := o.own
	o.own, o.idle = nil, nil
	o.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
	if o.client != nil {
		o.client.Close()
	}
	return nil
}

// Probe asks a broker for the topic.
func (o *output) Probe(ctx context.Context) error {
	if err := o.client.Reach(ctx); err != nil || o.topic == "" || o.cfg.Declare == nil {
		return err
	}
	return o.declare(ctx, o.topic)
}

// Write sends the batch and waits until all of it is confirmed, or has failed.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	if err := o.client.Link.Down(); err != nil {
		return cause.Held(kafka.Explain(err, "reach a broker"))
	}
	s := o.compose(b)
	err := o.declareAll(ctx, s.records)
	if err != nil {
		return cause.Held(err)
	}
	switch {
	case len(s.records) == 0:
	case o.tx != nil:
		err = o.transact(ctx, s)
	default:
		err = s.send(ctx)
	}
	if err != nil {
		return err
	}
	return s.conclude()
}

// fault returns the error of a record: of the record itself, or of the output if all records would fail.
func (o *output) fault(err error, r *kgo.Record) error {
	if n, missing := kafka.MissingPartition(r); missing {
		return engine.Errorf(engine.Rejected, "topic %s has no partition %d (correct `partition`, or add partitions: they "+
			"are seen within a minute)", r.Topic, n)
	}
	why := kafka.Explain(err, "write to topic "+r.Topic)
	switch e := engine.ErrorOf(why, engine.Transient); {
	case o.client.Link.Down() != nil:
		return cause.Held(kafka.Explain(o.client.Link.Down(), "reach a broker"))
	case gone(err) && (o.topic != "" || o.cfg.Declare != nil):
		return cause.Held(why)
	case errors.Is(err, kerr.TopicAuthorizationFailed) && o.topic == "":
		return engine.Errorf(engine.Rejected, "%w", e.Err)
	case gone(err), e.Class == engine.Transient && kafka.IsPermanent(err):
		return engine.Errorf(engine.Rejected, "%w", e.Err)
	}
	return why
}
