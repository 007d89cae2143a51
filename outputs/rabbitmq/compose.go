package rabbitmq

import (
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// compose turns the batch into what is published. Messages that can't be composed fail.
func (o *output) compose(b *engine.Batch) []*amqp.Outgoing {
	room := make([]amqp.Outgoing, 0, b.Len())
	all := make([]*amqp.Outgoing, 0, b.Len())
	for m := range b.All() {
		room = append(room, amqp.Outgoing{M: m})
		c := &room[len(room)-1]
		if err := o.fill(c); err != nil {
			m.Fail(err)
			continue
		}
		all = append(all, c)
	}
	return all
}

func (o *output) fill(c *amqp.Outgoing) (err error) {
	if c.Key, err = o.cfg.RoutingKey.Text(c.M); err != nil {
		return err
	}
	if err := amqp.CheckShort("the routing key", c.Key); err != nil {
		return err
	}
	if problem := controls.In(c.Key); problem != "" {
		return engine.Errorf(engine.Rejected, "the routing key %s: %q", problem, c.Key)
	}
	c.Pub.Body = c.M.Bytes()
	if c.Pub.DeliveryMode = amqp091.Transient; o.cfg.Persistent {
		c.Pub.DeliveryMode = amqp091.Persistent
	}
	for name, t := range o.cfg.Headers.All() {
		value, err := t.Text(c.M)
		if err != nil {
			return err
		}
		if c.Pub.Headers == nil {
			c.Pub.Headers = amqp091.Table{}
		}
		c.Pub.Headers[name] = value
	}
	if err := amqp.Fill(&c.Pub, c.M.Meta); err != nil {
		return err
	}
	return o.evaluate(c)
}

// evaluate sets the properties that the configuration computes.
func (o *output) evaluate(c *amqp.Outgoing) error {
	if !o.cfg.Priority.IsZero() {
		v, err := o.cfg.Priority.Eval(c.M)
		if err != nil {
			return err
		}
		n, ok := v.(int)
		if v != nil && (!ok || n < 0 || n > 255) {
			return engine.Errorf(engine.Rejected, "priority is %v, which is not a number from 0 to 255", v)
		}
		c.Pub.Priority = uint8(n)
	}
	if o.cfg.Expiration.IsZero() {
		return nil
	}
	v, err := o.cfg.Expiration.Eval(c.M)
	if err != nil {
		return err
	}
	c.Pub.Expiration, err = expiration(v)
	return err
}

// expiration returns a time to live in milliseconds, as text.
func expiration(v any) (string, error) {
	ms := int64(-1)
	switch v := v.(type) {
	case nil:
		return "", nil
	case int:
		ms = int64(v)
	case time.Duration:
		ms = v.Milliseconds()
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			ms = n // as the metadata of another message has it
		} else if d, err := time.ParseDuration(v); err == nil {
			ms = d.Milliseconds()
		}
	}
	const most = 1<<32 - 1 // that the broker accepts
	if ms < 0 || ms > most {
		return "", engine.Errorf(engine.Rejected,
			"expiration is %v, which is neither a duration from 0s to 49 days nor a number of milliseconds", v)
	}
	return strconv.FormatInt(ms, 10), nil
}
