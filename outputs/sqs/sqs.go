// Package sqs sends messages to queues of Amazon SQS, ten to a request. Start at
// [output.Write]; how requests are packed is in internal/systems/aws.
package sqs

import (
	"context"
	"net/http"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/aws"
)

// Config configures the output.
type Config struct {
	Queue      string `yaml:"queue,main" check:"required,nonempty" doc:"Queue, by name, URL or ARN."`
	aws.Config `yaml:",inline"`
	GroupID    expr.Expr `yaml:"group_id" doc:"Group of the message; required for a FIFO queue, which keeps the order of each group."`
	DedupeID   expr.Expr `yaml:"dedupe_id" doc:"Id for deduplication in a FIFO queue: of messages with the same id within 5 minutes, only the first is accepted. Without it, each message has its own id, the same at every attempt, unless the queue deduplicates by content."`
	Delay      expr.Expr `yaml:"delay" doc:"How long the queue holds back the message, up to 15m: a duration such as '\"90s\"', a number of seconds, or a time; nil means no delay. Not for FIFO queues."`
	Parallel   int       `yaml:"parallel" check:"min=1" doc:"Requests of one write that may be in flight at once."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	q, ok := aws.CheckQueue(c.Queue, &c.Config, report)
	if !ok {
		return
	}
	aws.CheckFIFO(q.FIFO(), "queue", &c.GroupID, &c.DedupeID, report)
	if c.Delay.IsZero() {
		return
	}
	if q.FIFO() {
		report("delay", "a FIFO queue can't delay single messages",
			"remove it, set the queue's own delay, or use a standard queue")
	}
	if v, ok := constant(&c.Delay); ok {
		if _, err := aws.Delay(v, time.Now(), aws.LongestDelay); err != nil {
			report("delay", err.Error(), "")
		}
	}
}

// constant is the value of an expression that does not use the message.
func constant(e *expr.Expr) (any, bool) {
	b := engine.NewBatch(1)
	v, err := e.Eval(b.Add([]byte("{}")))
	return v, err == nil && v != nil
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return aws.Words() }

const about = `
Sends messages to an Amazon SQS queue.

A request holds up to ten messages and 1MiB; messages that the queue fails are retried
alone. The payload is the body, which must be text. Metadata other than the input's own
is sent as message attributes, up to ten, if its name is allowed for one: numbers as
Number, bytes that are not text as Binary, anything else as String. Empty metadata is
not sent. A valid traceparent is also sent as AWSTraceHeader.

In a FIFO queue, messages of one group never overtake each other: a request contains one
of each group, and messages after a failed one wait for it. Many groups are fast; a
single group sends one message at a time.

    outputs:
      orders: {sqs: {queue: orders.fifo, group_id: customer.id, dedupe_id: id}}
    engine: {order_by: customer.id}
`

func init() {
	engine.Register(engine.Outputs, "sqs", about, Config{Parallel: 8}, newOutput)
}

type output struct {
	cfg   Config
	queue aws.Queue
	http  *http.Client // carries the requests in tests; nil: the network

	session *aws.Session
	client  *awssqs.Client
	url     string
	fifo    aws.FIFO
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, _ engine.Env) (engine.Output, error) {
	q, err := aws.ParseQueue(c.Queue)
	if err != nil {
		return nil, err
	}
	return &output{cfg: c, queue: q, fifo: aws.FIFO{On: q.FIFO()}}, nil
}

// Traits says that no message after a failed one is sent, and that a FIFO queue
// keeps the order of its groups.
func (o *output) Traits() engine.Traits {
	t := engine.Traits{Sequential: true}
	if o.fifo.On {
		t.OrderBy = o.cfg.GroupID.String()
	}
	return t
}

// Open finds the queue.
func (o *output) Open(ctx context.Context) (err error) {
	if o.session, err = o.cfg.Open(ctx, o.queue.Region, o.http); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			o.session.Close()
		}
	}()
	o.client = o.session.SQS()
	if o.url, err = o.queue.Find(ctx, o.client, o.session.Region()); err != nil {
		return err
	}
	out, err := o.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &o.url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	switch {
	case aws.Denied(err): // it may still be written to
		return nil
	case err != nil:
		return aws.Explain(err, o.queue.String())
	}
	o.fifo.Content = out.Attributes["ContentBasedDeduplication"] == "true"
	return nil
}

// Close closes idle connections.
func (o *output) Close(context.Context) error {
	o.session.Close()
	return nil
}

// Write sends the batch, in as few requests as possible.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	msgs, out := make([]*engine.Message, 0, b.Len()), make([]aws.Outgoing, 0, b.Len())
	for m := range b.All() {
		msgs, out = append(msgs, m), append(out, o.prepare(m))
	}
	for i, err := range (aws.Requests{Bytes: aws.MaxMessage, Parallel: o.cfg.Parallel}).Send(ctx, o.client, o.url,
		o.queue.String(), out) {
		if err != nil {
			msgs[i].Fail(err)
		}
	}
	return nil
}

func (o *output) prepare(m *engine.Message) aws.Outgoing {
	out := o.fifo.Prepare(m, &o.cfg.GroupID, &o.cfg.DedupeID, aws.MaxMessage)
	if o.cfg.Delay.IsZero() || out.Err != nil {
		return out
	}
	v, err := o.cfg.Delay.Eval(m)
	if err != nil {
		out.Err = err
		return out
	}
	d, err := aws.Delay(v, time.Now(), aws.LongestDelay)
	out.Delay, out.Err = aws.Seconds(d), engine.WithClass(engine.Rejected, err)
	return out
}
