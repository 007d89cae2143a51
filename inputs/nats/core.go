package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	client "github.com/nats-io/nats.go"
)

// core is a subscription without a stream.
type core struct {
	in   *input
	conn *nats.Conn
	subs []*client.Subscription
	wake source.Signal // set when a message has arrived or was dropped

	mu      sync.Mutex // guards the fields below
	waiting []*client.Msg
	bytes   int       // size of waiting
	dropped int64     // number of messages dropped so far
	logged  int64     // how many of them were logged
	last    time.Time // when the last one was dropped
}

// overhead is about how many bytes a message needs besides its payload.
const overhead = 256

// subscribe subscribes to the subjects.
func (in *input) subscribe(conn *nats.Conn) (reader, error) {
	c := &core{in: in, conn: conn, wake: source.NewSignal()}
	for _, subject := range in.cfg.Subject {
		sub, err := conn.QueueSubscribe(subject, in.cfg.QueueGroup, c.arrive)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1) // buffer limits waiting messages instead
		}
		if err != nil {
			return nil, nats.Explain(err, "subscribe to "+subject)
		}
		c.subs = append(c.subs, sub)
	}
	if err := conn.FlushTimeout(conn.Timeout); err != nil {
		return nil, nats.Explain(err, "subscribe")
	}
	if err := c.deniedError(); err != nil {
		return nil, err
	}
	return c, nil
}

// deniedError returns an error if the server has denied this user the subscription.
func (c *core) deniedError() error {
	err := c.conn.LastError()
	if nats.DeniedSubscription(err) {
		return nats.Explain(err, "subscribe")
	}
	return nil
}

// arrive adds a message to waiting. If the buffer is full, it drops the message.
func (c *core) arrive(m *client.Msg) {
	size := len(m.Data) + overhead
	c.mu.Lock()
	if c.bytes+size > int(c.in.cfg.Buffer) && len(c.waiting) > 0 {
		c.dropped++
		c.last = time.Now()
	} else {
		c.waiting = append(c.waiting, m)
		c.bytes += size
	}
	c.mu.Unlock()
	c.wake.Set()
}

// read waits for a message, and adds all that have arrived.
func (c *core) read(ctx context.Context, b *engine.Batch) error {
	for {
		if got := c.takeWaiting(b.Room()); len(got) > 0 {
			from := &nats.Arrivals{All: got}
			meta := engine.MetaFrom(from)
			for i, m := range got {
				b.Add(m.Data).Meta = meta.At(i)
			}
			return nil
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
			if err := c.deniedError(); err != nil { // a server may revoke a permission
				return err
			}
		}
	}
}

// takeWaiting removes and returns up to limit waiting messages, and logs dropped ones.
func (c *core) takeWaiting(limit int) []*client.Msg {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(limit, len(c.waiting))
	got := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	for _, m := range got {
		c.bytes -= len(m.Data) + overhead
	}
	if c.dropped > c.logged {
		c.in.log.Error("messages were dropped: they arrive faster than they are read (raise `buffer`, make the "+
			"pipeline faster, or read a stream)",
			"messages", c.dropped-c.logged, "total", c.dropped)
		c.logged = c.dropped
	}
	return got
}

// Ack is never called: messages of a subject are not acknowledged.
func (c *core) Ack(context.Context, []engine.Result) ([]engine.Result, error) { return nil, nil }

// stop ends the subscriptions. Messages that have arrived and were not read are lost, since the server does not keep them.
func (c *core) stop(context.Context) {
	for _, s := range c.subs {
		_ = s.Unsubscribe()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.in.log.Warn("messages that had arrived but were not read are lost: the server does not keep them", "messages", len(c.waiting))
	}
}

func (*core) close(context.Context) {}

// recent is how long after a drop trouble reports it.
const recent = time.Minute

func (c *core) trouble() *engine.Trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped == 0 || time.Since(c.last) > recent {
		return nil
	}
	return &engine.Trouble{Indicator: "nats_dropped", Impact: fmt.Sprintf("%d messages were dropped", c.dropped),
		Cause: "they arrive faster than they are read", Action: "raise `buffer`, make the pipeline faster, or read a stream",
		Since: c.last}
}
