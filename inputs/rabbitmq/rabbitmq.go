// Package rabbitmq reads a RabbitMQ queue. Start at [input.Read]. session.go has connections and their acknowledgements;
// ledger.go turns results into as few frames as possible.
package rabbitmq

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	amqp.Connect `yaml:",inline"`
	Queue        string        `yaml:"queue" doc:"Queue to consume; in a poll input also a pattern of names, such as orders-*. In a name write \\ before * ? [ and \\. It may only be omitted if declare creates an exclusive queue, which the broker names."`
	Management   schema.Secret `yaml:"management" doc:"URL of the management interface, which knows the queues that match a pattern, and delivery limits: http://user:password@HOST:15672. By default on url's host at port 15672, or 15671 with TLS, with url's user."`
	Prefetch     int           `yaml:"prefetch" check:"min=1,max=65535" doc:"Maximum number of messages delivered but not yet acknowledged: this limits memory, and how large a batch can grow. By default 1000; for a queue with a delivery limit, as many as workers and batches need."`
	Declare      *amqp.Declare `yaml:"declare" doc:"Create the queue, an exchange and bindings if they do not exist; without this, they must exist."`
	OnReturn     string        `yaml:"on_return" check:"oneof=requeue|requeue_once|reject" doc:"What happens to a message that is returned (then: return): requeue, it is redelivered; requeue_once, it is rejected if it was delivered before; reject, the broker dead-letters it, or drops it if the queue has no dead-letter exchange. Unfinished messages that a stop returns are always requeued."`
	ReturnDelay  time.Duration `yaml:"return_delay" check:"min=0s,max=10m" doc:"How long a message that was delivered before is held back before it is requeued."`
	EarlyAck     bool          `yaml:"early_ack" doc:"Acknowledge each message as soon as it is read. It is processed at most once: a message that fails later, or is in flight in a crash, is lost."`
	Consume      consume       `yaml:"consume" doc:"How to consume."`
}

type consume struct {
	Tag       string         `yaml:"tag" doc:"Name of the consumer; PIPELINE.INPUT by default."`
	Exclusive bool           `yaml:"exclusive" doc:"Be the only consumer of the queue."`
	Arguments amqp.Arguments `yaml:"arguments" doc:"Arguments, such as x-priority: 10, or for a stream x-stream-offset: first, last, next, a number, a time such as 2026-01-31T12:00:00Z, or an interval before now, such as 2h."`
}

const (
	requeue     = "requeue"
	requeueOnce = "requeue_once"
)

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	switch {
	case c.Queue == "" && c.Declare == nil:
		report("queue", "required", "name the queue")
	case c.Queue == "" && !c.Declare.Queue.Exclusive:
		report("queue", "a queue that the broker names would be a different one after each connection",
			"name it, or write declare: {queue: {exclusive: true}}")
	case len(c.Queue) > 255:
		report("queue", "is longer than 255 bytes", "shorten it")
	}
	c.checkPattern(report)
	if len(c.Consume.Tag) > 255 {
		report("consume.tag", "is longer than 255 bytes", "shorten it")
	}
	if v, ok := c.Consume.Arguments[offsetArgument]; ok {
		if _, err := offset(v); err != nil {
			report("consume.arguments", offsetArgument+": "+err.Error(),
				"write first, last, next, a number from 0 on, a time such as 2026-01-31T12:00:00Z, or an interval such as 2h, with Y, M, D, h, m or s")
		}
	}
	if c.stream() && c.Consume.Exclusive {
		report("consume.exclusive", "a stream can't have exclusive consumers",
			"remove it, or use a quorum queue with x-single-active-consumer")
	}
}

// Traits says that a queue settles each message separately, and a stream up to a position. prefetch limits how many messages
// are unsettled, except with a pattern: each queue that matches has its own prefetch.
func (c Config) Traits() engine.Traits {
	t := engine.Traits{AcksEarly: c.EarlyAck, DeliveryLimit: c.Declare.DeliveryLimit(), HandsBack: c.Prefetch}
	switch {
	case c.EarlyAck:
		return t
	case c.stream():
		t.TakesBack = engine.TakesPosition
	default:
		t.TakesBack = engine.TakesOne
	}
	if _, isPattern := amqp.QueueName(c.Queue); !isPattern {
		t.Unsettled = cmp.Or(c.Prefetch, defaultPrefetch)
	}
	return t
}

// stream reports whether the queue is a stream, which keeps its messages and takes none back.
func (c *Config) stream() bool {
	_, offset := c.Consume.Arguments[offsetArgument]
	return offset || c.Declare.Stream()
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	for word, remedy := range map[string]string{
		"prefetch_count": "write `prefetch`", "qos": "write `prefetch`", "queue_declare": "write `declare`",
		"bindings":         "write `declare: {bindings: […]}`",
		"bindings_declare": "write `declare: {bindings: […]}`", "consumer_tag": "write `consume: {tag: …}`",
		"auto_ack": "write `early_ack`", "no_ack": "write `early_ack`",
		"on_failure": "write `on_return`", "metadata": "remove it: all of them are available",
		"nack_reject_patterns": "write `on_return: reject`",
	} {
		words[word] = remedy
	}
	return words
}

const about = `
Consumes a RabbitMQ queue: classic, quorum or stream.

A message is acknowledged when it is settled. prefetch limits how many may be
unacknowledged at once; it should be larger than a batch. Up to RabbitMQ 4.2, a
quorum queue with a delivery limit (RabbitMQ 4 gives each one a limit of 20) counts
messages that a stop returns as delivered: fewer are then prefetched, unless prefetch
is set. The limit is taken from declare, or from the management interface, if it
answers this user. Messages that fail for good go where on_failure says; messages
that return to the queue are treated as on_return says. What a stop leaves unfinished
goes back in order, when the input closes.

A lost connection is re-established, at the next URL of a list if need be;
unacknowledged messages are redelivered. A stream continues after what was settled,
as long as flowd runs; after a restart it begins at x-stream-offset. Messages can't
be returned to a stream, so failures stop the pipeline, or are dead-lettered.

In a poll input, queue may be a pattern, with * for any text without a /, ? for one
character and [a-z] for one of these. It matches queues of the virtual host, but not
those that are exclusive to a connection, and streams only if x-stream-offset is set.
Each queue has its own connection and prefetch. The user needs the management tag. A
pattern must not match the queues to which dead letters go.

Metadata: queue, exchange, routing_key, redelivered, deaths (how often it was
dead-lettered), the properties (content_type, content_encoding, correlation_id,
reply_to, expiration, message_id, timestamp, type, user_id, app_id, priority,
persistent) and the headers, including x-death, by name: bytes as text, which may not be
UTF-8. A header with one of the names above becomes header_NAME. attempt() counts
deliveries.

    inputs:
      orders: {rabbitmq: {url: "amqp://localhost", queue: orders, prefetch: 500}}
`

func init() {
	engine.Register(engine.Inputs, "rabbitmq", about, Config{
		Connect: amqp.Defaults, OnReturn: requeue, ReturnDelay: time.Second,
	}, newInput)
}

// defaultPrefetch is the prefetch if none is configured and the queue has no delivery limit.
const defaultPrefetch = 1000

type input struct {
	*source.Session[*session]
	cfg    Config
	hands  int // messages that the pipeline processes at once
	log    *slog.Logger
	tag    string
	dialer *amqp.Dialer

	next atomic.Int64 // of a stream: the offset after the last one up to which all messages are settled; 0: unknown
}

var (
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*session)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	queue, isPattern := amqp.QueueName(c.Queue)
	if isPattern {
		return &pattern{cfg: c, env: env}, nil
	}
	c.Queue = queue
	return newReader(c, env), nil
}

// newReader makes an input for one queue. Its name is not a pattern.
func newReader(c Config, env engine.Env) *input {
	name := strings.Trim(env.Pipeline+"."+env.Name, ".")
	if env.Index > 0 {
		name = fmt.Sprintf("%s.%d", name, env.Index)
	}
	in := &input{cfg: c, hands: max(1, env.Hands/max(1, env.Instances)), log: env.Log, tag: name}
	if c.Consume.Tag != "" {
		in.tag = c.Consume.Tag
	}
	in.tag = in.tag[:min(len(in.tag), 255)]
	in.dialer = amqp.NewDialer(&in.cfg.Connect, name)
	in.Session = source.NewSession(in.connect)
	return in
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Read waits for a delivery, and adds all that have arrived.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	s := in.Conn()
	return s, s.read(ctx, b)
}
