// Package rabbitmq publishes messages to a RabbitMQ exchange. Start at [output.Write]. compose.go makes what is published, and
// internal/systems/queue/amqp handles confirms.
package rabbitmq

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	amqp.Connect `yaml:",inline"`
	Exchange     string                    `yaml:"exchange" doc:"Exchange to publish to; by default the default exchange, which routes a message to the queue that routing_key names."`
	RoutingKey   expr.Template             `yaml:"routing_key" doc:"Routing key."`
	Headers      schema.Map[expr.Template] `yaml:"headers" doc:"Headers by name, in addition to those from metadata."`
	Expiration   expr.Expr                 `yaml:"expiration" doc:"Time after which a queue drops the message, or dead-letters it: a duration, \"30s\", or a number of milliseconds. nil means never."`
	Priority     expr.Expr                 `yaml:"priority" doc:"Priority from 0 to 255, for queues with x-max-priority; metadata priority by default."`
	Persistent   bool                      `yaml:"persistent" doc:"Durable queues keep the message when the broker restarts."`
	Mandatory    bool                      `yaml:"mandatory" doc:"A message that can't be routed to a queue fails (class rejected); with false, the broker drops it."`
	Declare      *amqp.Kind                `yaml:"declare" doc:"Create the exchange if it does not exist; without this, it must exist."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	key, constant := c.RoutingKey.Const()
	switch {
	case c.Exchange == "" && (c.RoutingKey.IsZero() || constant && key == ""):
		report("routing_key", "there is nowhere to publish to", "write `routing_key: QUEUE`, or name an `exchange`")
	case constant && len(key) > 255:
		report("routing_key", "is longer than 255 bytes", "shorten it")
	}
	if len(c.Exchange) > 255 {
		report("exchange", "is longer than 255 bytes", "shorten it")
	}
	if c.Declare != nil && c.Exchange == "" {
		report("declare", "the default exchange always exists", "name the `exchange`, or remove declare")
	}
	if c.Declare != nil && c.Declare.Internal {
		report("declare.internal", "nothing can be published to an internal exchange", "remove it")
	}
	for name := range c.Headers.All() {
		if len(name) > 255 || name == "" {
			report("headers", "a name must have 1 to 255 bytes", "write another")
		}
	}
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	for word, remedy := range map[string]string{
		"key": "write `routing_key`", "queue": "write `routing_key: QUEUE`", "ttl": "write `expiration`",
		"delivery_mode":    "write `persistent`",
		"exchange_declare": "write `declare`", "max_in_flight": "write `concurrency` beside the type",
		"immediate":    "remove it: RabbitMQ no longer has it",
		"confirm":      "remove it: publishes are always confirmed",
		"content_type": "write a step `meta: {content_type: …}`", "message_id": "write a step `meta: {message_id: …}`",
	} {
		words[word] = remedy
	}
	return words
}

const about = `
Publishes to a RabbitMQ exchange, and waits for the broker to confirm each message.

A write publishes all its messages at once; with concurrency, each write has its own
channel. A message that can't be routed to a queue fails alone (class rejected), as
does one that a queue refuses (class transient). While the broker can't be reached,
blocks publishers or denies permission, or while the only queue that all messages go
to does not exist, the output is held and nothing is lost.

Properties come from metadata: content_type, content_encoding, correlation_id,
reply_to, message_id, timestamp, type, app_id and priority; other metadata that
steps have set, or that the producer sent with the message, becomes headers.

    outputs:
      orders: {rabbitmq: {url: "amqp://localhost", exchange: shop, routing_key: "order.$(country)"}}
`

func init() {
	engine.Register(engine.Outputs, "rabbitmq", about,
		Config{Connect: amqp.Defaults, Persistent: true, Mandatory: true}, newOutput)
}

type output struct {
	cfg    Config
	log    *slog.Logger
	dialer *amqp.Dialer
	queue  string // the one to which all messages go; "": there are others, or none is known

	dialing chan struct{}  // a lock with a deadline, for connecting
	closing sync.WaitGroup // channels that are being closed

	mu   sync.Mutex        // guards the fields below
	conn *amqp.Conn        // nil: none
	idle []*amqp.Publisher // of conn
	shut bool
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Staller = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, log: env.Log, dialing: make(chan struct{}, 1)}
	if key, constant := c.RoutingKey.Const(); constant && c.Exchange == "" {
		o.queue = key
	}
	o.dialer = amqp.NewDialer(&o.cfg.Connect, strings.Trim(env.Pipeline+"."+env.Name, "."))
	return o, nil
}

// Open connects and looks for the exchange.
func (o *output) Open(ctx context.Context) error {
	ch, err := o.acquire(ctx)
	if err != nil {
		return err
	}
	o.release(ch)
	return nil
}

// Write publishes the batch and waits until all of it is confirmed, or has failed.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	all := o.compose(b)
	for len(all) > 0 {
		n := min(len(all), amqp.Window)
		left, err := o.publish(ctx, all[:n])
		if amqp.BlamesMessage(err) {
			err = o.singly(ctx, left)
		}
		if err != nil {
			return err // of messages that are neither done nor failed
		}
		all = all[n:]
	}
	return nil
}

// publish publishes at most a window of messages, records their results, and returns those without a result.
func (o *output) publish(ctx context.Context, all []*amqp.Outgoing) (left []*amqp.Outgoing, err error) {
	ch, err := o.acquire(ctx)
	if err != nil {
		return all, err
	}
	left, err = ch.Publish(ctx, o.cfg.Exchange, o.cfg.Mandatory, all)
	o.release(ch)
	for _, c := range all {
		switch {
		case !c.Done:
		case c.Err != nil:
			c.M.Fail(o.fault(c.Err))
		default:
			c.M.Done()
		}
	}
	return left, err
}

// fault returns the error of a message. If the one queue of all messages is missing, no message is to blame, and the output is held.
func (o *output) fault(err error) error {
	if o.queue == "" || !errors.Is(err, amqp.ErrNoQueue) {
		return err
	}
	return &engine.Error{Class: engine.Transient, Holds: true, Err: err}
}

// Stalled returns why the broker accepts no messages at present, as the broker reports it. This is known long before a write without
// confirms is given up.
func (o *output) Stalled() string {
	o.mu.Lock()
	conn := o.conn
	o.mu.Unlock()
	if conn == nil {
		return ""
	}
	reason, blocked := conn.Blocked()
	if blocked && reason == "" {
		reason = "the broker gives no reason"
	}
	return reason
}

// blocked logs whether the broker accepts messages.
func (o *output) blocked(reason string, blocked bool) {
	if blocked {
		o.log.Warn("the broker accepts no messages until it has memory and disk space again",
			"reason", reason)
	} else {
		o.log.Info("the broker accepts messages again")
	}
}

// singly publishes messages one by one, because the broker has closed the channel because of one of them and does not say which.
func (o *output) singly(ctx context.Context, all []*amqp.Outgoing) error {
	for i := range all {
		_, err := o.publish(ctx, all[i:i+1])
		switch {
		case err == nil:
		case amqp.BlamesMessage(err):
			all[i].M.Fail(engine.WithClass(engine.Rejected, err))
		default:
			return err
		}
	}
	return nil
}

// acquire returns a channel for one write. Its error holds the output: nothing was written.
func (o *output) acquire(ctx context.Context) (*amqp.Publisher, error) {
	ch, err := o.channel(ctx)
	if err != nil {
		return nil, cause.Held(err)
	}
	return ch, nil
}

// channel returns an idle channel, or a new one.
func (o *output) channel(ctx context.Context) (*amqp.Publisher, error) {
	conn, ch, err := o.connection(ctx)
	if err != nil {
		return nil, err
	}
	if reason, blocked := conn.Blocked(); blocked { // it does not even open a channel
		if ch != nil {
			o.release(ch)
		}
		return nil, engine.Errorf(engine.Transient,
			"the broker accepts nothing at present: %s (it continues when it has memory and disk space again)", reason)
	}
	if ch != nil {
		return ch, nil
	}
	return amqp.NewPublisher(ctx, conn)
}

// connection returns the connection and an idle channel of it, if there is one. If the connection is lost, it connects again.
func (o *output) connection(ctx context.Context) (*amqp.Conn, *amqp.Publisher, error) {
	if conn, ch := o.there(); conn != nil {
		return conn, ch, nil
	}
	select {
	case o.dialing <- struct{}{}:
		defer func() { <-o.dialing }()
	case <-ctx.Done():
		return nil, nil, engine.Errorf(engine.Transient, "connecting takes too long: %w", ctx.Err())
	}
	if conn, ch := o.there(); conn != nil { // another write has made it
		return conn, ch, nil
	}
	conn, err := o.dialer.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn.OnBlocked(o.blocked)
	if err := o.prepare(ctx, conn); err != nil {
		conn.Close(ctx)
		return nil, nil, err
	}
	o.log.Info("publishing", "to", conn.Address, "exchange", o.cfg.Exchange)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn = conn
	return conn, nil, nil
}

// there returns the connection, if it works, and an idle channel.
func (o *output) there() (*amqp.Conn, *amqp.Publisher) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != nil && o.conn.IsClosed() {
		o.conn.Kill()
		o.conn, o.idle = nil, nil
	}
	for n := len(o.idle); n > 0; n-- {
		ch := o.idle[n-1]
		o.idle = o.idle[:n-1]
		if !ch.IsClosed() {
			return o.conn, ch
		}
	}
	return o.conn, nil
}

// prepare checks that the exchange exists, or creates it.
func (o *output) prepare(ctx context.Context, conn *amqp.Conn) error {
	if o.cfg.Exchange == "" {
		return nil
	}
	ch, err := amqp.NewPublisher(ctx, conn)
	if err != nil {
		return err
	}
	if o.cfg.Declare != nil {
		err = o.cfg.Declare.Create(ctx, conn, ch.Channel, o.cfg.Exchange)
	} else {
		err = conn.Within(ctx, "look for exchange "+o.cfg.Exchange, func() error {
			return ch.ExchangeDeclarePassive(o.cfg.Exchange, "direct", true, false, false, false, nil)
		})
	}
	if err == nil {
		o.mu.Lock()
		o.idle = append(o.idle[:0], ch)
		o.mu.Unlock()
	}
	return err
}

// release makes a channel available again, or closes it if it no longer works.
func (o *output) release(ch *amqp.Publisher) {
	o.mu.Lock()
	keep := !o.shut && ch.Usable() && ch.Conn == o.conn
	if keep {
		o.idle = append(o.idle, ch)
	}
	o.mu.Unlock()
	if !keep && !ch.IsClosed() {
		// A blocked broker does not answer this either. The channel then ends with the
		// connection.
		o.closing.Go(func() { _ = ch.Channel.Close() })
	}
}

// Close closes the connection. Messages without a confirm have failed.
func (o *output) Close(ctx context.Context) error {
	o.mu.Lock()
	conn := o.conn
	o.conn, o.idle, o.shut = nil, nil, true
	o.mu.Unlock()
	if conn != nil {
		conn.Close(ctx)
	}
	o.closing.Wait()
	return nil
}
