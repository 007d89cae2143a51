package amqp

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/flowd-io/flowd/engine"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Window is how many messages one Publish takes.
const Window = 2000

// Outgoing is a message to be published, and the result.
type Outgoing struct {
	M    *engine.Message // the caller's
	Key  string          // routing key
	Pub  amqp091.Publishing
	Over bool  // it is confirmed, or has failed
	Err  error // of one that has failed

	confirm *amqp091.DeferredConfirmation // nil: not published
}

// Publisher is a channel in confirm mode; one goroutine at a time uses it.
type Publisher struct {
	*amqp091.Channel
	Conn     *Conn
	closed   chan *amqp091.Error
	returned chan amqp091.Return // has room for all that is in flight: see Publish
	broken   bool                // confirms are outstanding that no one waits for
}

// NewPublisher opens a channel.
func NewPublisher(ctx context.Context, conn *Conn) (*Publisher, error) {
	c := &Publisher{Conn: conn, returned: make(chan amqp091.Return, Window), closed: make(chan *amqp091.Error, 1)}
	err := conn.Within(ctx, "open a channel", func() (err error) {
		if c.Channel, err = conn.Channel(); err == nil {
			err = c.Confirm(false)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.NotifyReturn(c.returned)
	c.NotifyClose(c.closed)
	return c, nil
}

// Publish publishes up to Window messages and waits for their confirms. Each is then
// finished, except those that are left: err says why.
func (c *Publisher) Publish(ctx context.Context, exchange string, mandatory bool, all []*Outgoing) (left []*Outgoing,
	err error) {
	c.Conn.Hold()
	for _, o := range all {
		o.confirm = nil
		if err == nil {
			o.confirm, err = c.PublishWithDeferredConfirm(exchange, o.Key, mandatory, false, o.Pub)
		}
	}
	if e := c.Conn.Release(); err == nil {
		err = e
	}
	c.wait(ctx, all)
	back := c.unroutable()
	for _, o := range all {
		switch {
		case o.confirm == nil || !confirmed(o.confirm):
			left = append(left, o)
		case back.has(o):
			o.Over, o.Err = true, unroutable(exchange, o.Key)
		case o.confirm.Acked():
			o.Over = true
		case c.IsClosed(): // the client says so of all that it has not heard of
			left = append(left, o)
		default:
			o.Over, o.Err = true, engine.Errorf(engine.Transient,
				"the broker does not accept it: a queue is full, or has failed")
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return left, c.why(ctx, err)
}

// ErrNoQueue is wrapped by the error of a message for a queue that is not there.
var ErrNoQueue = errors.New("there is no such queue")

// unroutable is the error of a message that no queue takes.
func unroutable(exchange, key string) error {
	if exchange == "" {
		return engine.Errorf(engine.Rejected, "queue %q: %w (create the queue, or correct routing_key)", key,
			ErrNoQueue)
	}
	return engine.Errorf(engine.Rejected,
		"no queue takes it: exchange %q has none for routing key %q (bind one, or write mandatory: false)", exchange,
		key)
}

// wait waits for all confirms, or until ctx ends. A channel that is lost ends them.
func (c *Publisher) wait(ctx context.Context, all []*Outgoing) {
	for _, o := range all {
		if o.confirm == nil || confirmed(o.confirm) {
			continue
		}
		select {
		case <-o.confirm.Done():
		case <-ctx.Done():
			c.broken = true
			return
		}
	}
}

func confirmed(d *amqp091.DeferredConfirmation) bool {
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// why says why messages are left.
func (c *Publisher) why(ctx context.Context, err error) error {
	select {
	case e := <-c.closed:
		return Lost(e, "publish")
	default:
	}
	if ctx.Err() == nil {
		if err == nil {
			err = amqp091.ErrClosed
		}
		return Explain(err, "publish")
	}
	if reason, blocked := c.Conn.Blocked(); blocked {
		e := engine.Errorf(engine.Timeout, "not confirmed in time: the broker accepts nothing at present: %s", reason)
		e.Holds = true
		return e
	}
	return engine.Errorf(engine.Timeout, "not confirmed in time: %w", context.Cause(ctx))
}

// unroutable takes what the broker has returned. It does so before it confirms the
// same message, and the room is enough, so that all of it is there.
func (c *Publisher) unroutable() returns {
	var all returns
	for {
		select {
		case r, ok := <-c.returned:
			if !ok { // the channel is closed, and with it its listeners
				return all
			}
			all = append(all, r)
		default:
			return all
		}
	}
}

// returns are messages that came back. The broker does not say which they are, so they are
// recognised by their content.
type returns []amqp091.Return

// has finds a message among what came back, and takes it out.
func (rs *returns) has(o *Outgoing) bool {
	for i := range *rs {
		if r := &(*rs)[i]; r.RoutingKey == o.Key && r.MessageId == o.Pub.MessageId && bytes.Equal(r.Body, o.Pub.Body) &&
			sameHeaders(r.Headers, o.Pub.Headers) {
			(*rs)[i] = (*rs)[len(*rs)-1]
			*rs = (*rs)[:len(*rs)-1]
			return true
		}
	}
	return false
}

// sameHeaders compares what came back with what was sent: times have lost what is below a
// second, so it is enough that everything else is the same.
func sameHeaders(got, sent amqp091.Table) bool {
	if len(got) != len(sent) {
		return false
	}
	for name, v := range sent {
		if _, is := v.(time.Time); is || reflect.DeepEqual(got[name], v) {
			continue
		}
		return false
	}
	return true
}

// Usable reports whether the publisher can be used again.
func (c *Publisher) Usable() bool { return !c.broken && !c.IsClosed() }
