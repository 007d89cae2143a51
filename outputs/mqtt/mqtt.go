// Package mqtt publishes messages to an MQTT server. Start at [output.Write]. compose.go makes what is published.
package mqtt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/systems/mqtt"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	mqtt.Connect    `yaml:",inline"`
	Topic           expr.Template             `yaml:"topic" check:"required" doc:"Topic."`
	QoS             int                       `yaml:"qos" check:"min=0,max=2" doc:"Quality of service. 1 and 2: the server confirms each message; 0: nobody does, and messages in transit are lost when the connection breaks."`
	Retain          expr.Expr                 `yaml:"retain" doc:"Whether the server retains the message as the topic's newest: true or false. An empty payload removes what it retains; it is rejected unless meta(\"tombstone\") is true."`
	ContentType     expr.Template             `yaml:"content_type" doc:"Content type; metadata content_type by default. This, and the fields down to user_properties, only in version 5."`
	ResponseTopic   expr.Template             `yaml:"response_topic" doc:"Topic for responses; metadata response_topic by default."`
	CorrelationData expr.Expr                 `yaml:"correlation_data" doc:"Data that a response repeats; metadata correlation_data by default."`
	Expiry          expr.Expr                 `yaml:"expiry" doc:"How long the server keeps the message for clients that are not connected: a duration, '\"30s\"', or a number of seconds. nil means no limit."`
	UserProperties  schema.Map[expr.Template] `yaml:"user_properties" doc:"User properties by name, instead of those from metadata."`
	Window          int                       `yaml:"window" check:"min=1,max=65535" doc:"Maximum number of messages sent but not yet confirmed, if the server accepts as many."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if topic, constant := c.Topic.Const(); constant {
		if problem := mqtt.BadTopic(topic); problem != "" {
			report("topic", problem, "write a name, such as plant/$(line)/state")
		}
	}
	if topic, constant := c.ResponseTopic.Const(); constant && topic != "" {
		if problem := mqtt.BadTopic(topic); problem != "" {
			report("response_topic", problem, "write a name without + and #")
		}
	}
	if !c.IsV311() {
		return
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"content_type", !c.ContentType.IsZero()}, {"response_topic", !c.ResponseTopic.IsZero()},
		{"correlation_data", !c.CorrelationData.IsZero()}, {"expiry", !c.Expiry.IsZero()},
		{"user_properties", c.UserProperties.Len() > 0},
	} {
		if f.set {
			report(f.name, "version 3.1.1 has no properties", "remove it, or write `version: 5`")
		}
	}
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	for word, remedy := range map[string]string{
		"retained": "write `retain`", "retained_interpolated": "write `retain`", "message_expiry": "write `expiry`",
		"topics": "write `topic`", "receive_maximum": "write `window`", "max_inflight": "write `window`",
		"write_timeout": "write `timeout` beside the type",
		"clean_start":   "remove it: the session of an output ends with its connection",
	} {
		words[word] = remedy
	}
	return words
}

const about = `
Publishes to an MQTT 5 or 3.1.1 server.

With QoS 1 and 2, a message is delivered when the server has confirmed it; many are in
flight at once, in order. A message that the server refuses fails alone: with class
rejected if its topic, size or content is not accepted, transient if it exceeds a quota.
MQTT 3.1.1 servers give no reasons: they close the connection, or confirm messages that
they discard, as Mosquitto does if a user may not write to a topic. A message without
subscribers is not an error.

When the connection is lost, messages that were sent but not confirmed are published
again, even with QoS 2: they may then arrive twice. A message at which the server closes
the connection each time is identified and fails alone. While the server can't be
reached, the output is held and nothing is lost, except QoS 0 messages in transit.

Metadata becomes properties of version 5: content_type, response_topic and
correlation_data, and, as user properties, what steps have set or the sender of the
message has sent with it.

    outputs:
      states: {mqtt: {url: "mqtt://localhost", topic: "plant/$(line)/state", retain: true}}
`

// defaultWindow is how many messages may wait for their confirmation.
const defaultWindow = 1000

func init() {
	d := mqtt.Defaults
	engine.Register(engine.Outputs, "mqtt", about, Config{Connect: d, QoS: 1, Window: defaultWindow}, newOutput)
}

type output struct {
	cfg      Config
	log      *slog.Logger
	dialer   *mqtt.Dialer
	clientID string
	constant bool // all messages have one topic

	dialing chan struct{} // a lock with a deadline, for connecting
	alone   sync.RWMutex  // locked while bisect looks for the message at which the server closes the connection

	mu     sync.Mutex // guards the fields below
	conn   *mqtt.Publisher
	rivals mqtt.Rivals
	shut   bool
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Prober  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, log: env.Log, dialing: make(chan struct{}, 1)}
	o.clientID = cmp.Or(c.ClientID, "flowd-"+strings.ToLower(rand.Text()[:16]))
	_, o.constant = c.Topic.Const()
	o.dialer = mqtt.NewDialer(&o.cfg.Connect)
	return o, nil
}

// Traits says that a write waits for answers.
func (o *output) Traits() engine.Traits { return engine.Traits{Bulk: true} }

// Open connects.
func (o *output) Open(ctx context.Context) error {
	o.mu.Lock()
	o.shut = false
	o.mu.Unlock()
	return o.Probe(ctx)
}

// Probe connects, if need be.
func (o *output) Probe(ctx context.Context) error {
	_, err := o.connection(ctx)
	return err
}

// Write publishes the batch and waits until all of it is confirmed, or has failed.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	all := o.compose(b)
	if len(all) == 0 {
		return nil
	}
	o.alone.RLock()
	left, err := o.publish(ctx, all)
	o.alone.RUnlock()
	if err == nil || !again(err) {
		return err
	}
	o.log.Warn("publishing messages again that the server has not confirmed: it may have them already",
		"messages", len(left), "err", err)
	o.alone.Lock()
	defer o.alone.Unlock()
	return o.bisect(ctx, left)
}

// lost is the error of messages whose connection was lost while they were published.
type lost struct {
	cause error
	again bool // they can be published again at once
}

func (l *lost) Error() string { return l.cause.Error() }
func (l *lost) Unwrap() error { return l.cause }

func again(err error) bool {
	l, ok := errors.AsType[*lost](err)
	return ok && l.again
}

// publish publishes messages, records how they ended, and returns those that have not.
func (o *output) publish(ctx context.Context, all []*mqtt.Outgoing) (left []*mqtt.Outgoing, err error) {
	conn, err := o.connection(ctx)
	if err != nil {
		return all, cause.Held(err)
	}
	if o.cfg.QoS > int(conn.Server.MaxQoS) {
		return all, cause.Held(engine.Errorf(engine.Permanent, "the server accepts QoS up to %d (write `qos: %[1]d`)",
			conn.Server.MaxQoS))
	}
	all = o.fitting(conn, all)
	err = conn.Publish(ctx, all)
	for _, out := range all {
		switch {
		case out.State != mqtt.Answered:
			left = append(left, out)
		case out.Refused != nil:
			out.M.Fail(o.fault(out.Refused))
		default:
			out.M.Done()
		}
	}
	if err == nil {
		return left, nil
	}
	o.forget(conn, err)
	if ctx.Err() != nil {
		return left, engine.Errorf(engine.Timeout, "%w (messages that were sent may arrive twice: now and when they are retried)", err)
	}
	return left, cause.Held(&lost{err, !mqtt.TakenOver(err)})
}

// bisect finds the message at which the server closes the connection, by publishing ever fewer of them at once. Nothing else is
// published meanwhile.
func (o *output) bisect(ctx context.Context, all []*mqtt.Outgoing) error {
	for len(all) > 0 {
		half := all[:(len(all)+1)/2]
		all = all[len(half):]
		left, err := o.publish(ctx, half)
		switch {
		case err == nil:
		case !again(err):
			return err
		case len(left) > 1:
			if err := o.bisect(ctx, left); err != nil {
				return err
			}
		case len(left) == 1:
			left[0].M.Fail(blamed(err))
		}
	}
	return nil
}

// blamed is the error of a message at which the server closes the connection.
func blamed(err error) error {
	class := engine.Transient
	if no, ok := errors.AsType[*mqtt.Refusal](err); ok && no.BlamesMessage() {
		class = engine.Rejected
	}
	return engine.Errorf(class, "the connection was lost each time this message was published: %w",
		errors.Unwrap(err))
}

// fitting returns the messages that the server accepts. The others fail.
func (o *output) fitting(conn *mqtt.Publisher, all []*mqtt.Outgoing) (fit []*mqtt.Outgoing) {
	for _, out := range all {
		if n, tooLarge := conn.Size(&out.Message); tooLarge {
			out.M.Fail(engine.Errorf(engine.Rejected, "the message has %d bytes, but the server accepts at most %d", n,
				conn.Server.MaxPacket))
		} else if out.Retain && conn.Server.NoRetain {
			out.M.Fail(engine.Errorf(engine.Rejected, "the server does not retain messages (remove `retain`)"))
		} else {
			fit = append(fit, out)
		}
	}
	return fit
}

// fault returns the error of a message. An error that concerns all messages holds the output.
func (o *output) fault(no *mqtt.Refusal) error {
	topic := "the topic"
	if o.constant {
		topic = o.cfg.Topic.String()
	}
	e := engine.ErrorOf(mqtt.Explain(no, "publish to "+topic), engine.Transient)
	if no.BlamesMessage() && !(no.Code == mqtt.NotAuthorized && o.constant) {
		e.Class = engine.Rejected
	}
	return e
}

// connection returns the connection. If it is lost, it connects again.
func (o *output) connection(ctx context.Context) (*mqtt.Publisher, error) {
	if conn := o.there(); conn != nil {
		return conn, nil
	}
	select {
	case o.dialing <- struct{}{}:
		defer func() { <-o.dialing }()
	case <-ctx.Done():
		return nil, engine.Errorf(engine.Transient, "connecting takes too long: %w", ctx.Err())
	}
	if conn := o.there(); conn != nil { // another write has made it
		return conn, nil
	}
	o.mu.Lock()
	wait, sure := o.rivals.Wait(time.Now())
	shut := o.shut
	o.mu.Unlock()
	switch {
	case shut:
		return nil, engine.Errorf(engine.Transient, "the output is closed")
	case wait > 0 && sure:
		return nil, engine.Errorf(engine.Transient, "%s (client_id %s; this one tries again in %v)", mqtt.RivalsText,
			o.clientID, wait.Round(time.Second))
	}
	if err := timing.Sleep(ctx, wait); err != nil {
		return nil, engine.Errorf(engine.Transient, "%s: %w", mqtt.RivalsText, err)
	}
	conn, err := o.dialer.Publisher(ctx, o.clientID, o.cfg.Window)
	if err != nil {
		return nil, err
	}
	o.log.Info("publishing", "to", conn.Address)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn = conn
	o.rivals.Connected(time.Now())
	return conn, nil
}

// there returns the connection, if it works.
func (o *output) there() *mqtt.Publisher {
	o.mu.Lock()
	conn := o.conn
	o.mu.Unlock()
	if conn == nil || conn.Alive() {
		return conn
	}
	o.forget(conn, conn.Cause())
	return nil
}

// forget gives up a connection that was lost.
func (o *output) forget(conn *mqtt.Publisher, why error) {
	o.mu.Lock()
	mine := o.conn == conn
	if mine {
		o.conn = nil
		o.rivals.Lost(why, time.Now())
	}
	o.mu.Unlock()
	if mine {
		o.log.Warn("the connection is lost", "err", why)
		conn.Abort()
	}
}

// Close disconnects. Messages without a confirmation have failed.
func (o *output) Close(ctx context.Context) error {
	o.mu.Lock()
	conn := o.conn
	o.conn, o.shut = nil, true
	o.mu.Unlock()
	if conn != nil {
		conn.Close(ctx)
	}
	return nil
}
