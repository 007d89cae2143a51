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

// Window is the largest number of messages in one Publish.
const Window = 2000

// Outgoing is a message to publish, and the result.
type Outgoing struct {
	M    *engine.Message // for the caller
	Key  string          // routing key
	Pub  amqp091.Publishing
	Done bool  // the message was confirmed or has failed
	Err  error // why it has failed; nil: it was confirmed

	confirm *amqp091.DeferredConfirmation // nil: not published
}

// Publisher is a channel in confirm mode. It is not safe for concurrent use.
type Publisher struct {
	*amqp091.Channel
	Conn     *Conn
	closed   chan *amqp091.Error
	returned chan amqp091.Return // has room for all messages of a Publish
	broken   bool                // a Publish has ended before all confirms have arrived
}

// NewPublisher opens a channel on conn.
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

// Publish publishes up to [Window] messages and waits for their confirms. left are the messages without a result, and err says
// why. All others are Done.
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
	back := c.takeReturned()
	for _, o := range all {
		switch {
		case o.confirm == nil || !confirmed(o.confirm):
			left = append(left, o)
		case back.remove(o):
			o.Done, o.Err = true, unroutable(exchange, o.Key)
		case o.confirm.Acked():
			o.Done = true
		case c.IsClosed(): // the client library reports all outstanding messages as not acknowledged
			left = append(left, o)
		default:
			o.Done, o.Err = true, engine.Errorf(engine.Transient,
				"the broker does not accept the message: a queue is full, or has failed")
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return left, c.failure(ctx, err)
}

// ErrNoQueue is wrapped by the error of a message for a queue that does not exist.
var ErrNoQueue = errors.New("it does not exist")

// unroutable returns the error of a message that was not routed to any queue.
func unroutable(exchange, key string) error {
	if exchange == "" {
		return engine.Errorf(engine.Rejected, "queue %q: %w (create the queue, or correct routing_key)", key,
			ErrNoQueue)
	}
	return engine.Errorf(engine.Rejected,
		"no queue gets the message: exchange %q has no binding for routing key %q (bind a queue, or write mandatory: false)", exchange,
		key)
}

// wait waits for all confirms, or until ctx ends. If the channel is lost, the client library ends all confirms.
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

// failure returns why messages have no result.
func (c *Publisher) failure(ctx context.Context, err error) error {
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
		e := engine.Errorf(engine.Timeout, "not confirmed in time: the broker blocks publishers at present: %s", reason)
		e.Holds = true
		return e
	}
	return engine.Errorf(engine.Timeout, "not confirmed in time: %w", context.Cause(ctx))
}

// takeReturned takes the messages that the broker has returned. The broker returns a message before it confirms it, so all of
// them have arrived.
func (c *Publisher) takeReturned() returns {
	var all returns
	for {
		select {
		case r, ok := <-c.returned:
			if !ok { // the channel is closed
				return all
			}
			all = append(all, r)
		default:
			return all
		}
	}
}

// returns are messages that the broker has returned. It does not say which messages they are, so they are recognised by their
// content.
type returns []amqp091.Return

// remove removes a message from the returned ones, and reports whether it was there.
func (rs *returns) remove(o *Outgoing) bool {
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

// sameHeaders compares the headers of a returned message with those of a sent one. It ignores times, which lose fractions of a
// second on the wire.
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
