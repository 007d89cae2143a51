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
	wake source.Signal // there is something to read, or to report

	mu      sync.Mutex // guards the fields below
	waiting []*client.Msg
	bytes   int
	dropped int64     // in all
	told    int64     // of them, in the log
	last    time.Time // when one was
}

// overhead is about what a message needs beside its payload.
const overhead = 256

// subscribe subscribes to the subjects.
func (in *input) subscribe(conn *nats.Conn) (reader, error) {
	c := &core{in: in, conn: conn, wake: source.NewSignal()}
	for _, subject := range in.cfg.Subject {
		sub, err := conn.QueueSubscribe(subject, in.cfg.QueueGroup, c.arrive)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1) // they are kept here
		}
		if err != nil {
			return nil, nats.Explain(err, "subscribe to "+subject)
		}
		c.subs = append(c.subs, sub)
	}
	if err := conn.FlushTimeout(conn.Timeout); err != nil {
		return nil, nats.Explain(err, "subscribe")
	}
	if err := c.denied(); err != nil {
		return nil, err
	}
	return c, nil
}

// denied is that the server does not let this user subscribe, or nil.
func (c *core) denied() error {
	err := c.conn.LastError()
	if nats.DeniedSubscription(err) {
		return nats.Explain(err, "subscribe")
	}
	return nil
}

// arrive takes a message, unless too many wait.
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

func (c *core) read(ctx context.Context, b *engine.Batch) error {
	for {
		if got := c.take(b.Room()); len(got) > 0 {
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
			if err := c.denied(); err != nil { // which a server may say of one that was allowed before
				return err
			}
		}
	}
}

// take is what waits, and tells of what was dropped.
func (c *core) take(most int) []*client.Msg {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(most, len(c.waiting))
	got := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	for _, m := range got {
		c.bytes -= len(m.Data) + overhead
	}
	if c.dropped > c.told {
		c.in.log.Error("messages were dropped: they arrive faster than they are read (raise `buffer`, make the "+
			"pipeline faster, or read a stream)",
			"messages", c.dropped-c.told, "in all", c.dropped)
		c.told = c.dropped
	}
	return got
}

// Ack is never called: a subject takes nothing back.
func (c *core) Ack(context.Context, []engine.Result) ([]engine.Result, error) { return nil, nil }

// stop ends the subscriptions. What has arrived is lost with the process, as nobody else has it.
func (c *core) stop(context.Context) {
	for _, s := range c.subs {
		_ = s.Unsubscribe()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.in.log.Warn("messages that had arrived were not read, and are lost: a subject keeps none", "messages", len(c.waiting))
	}
}

func (*core) close(context.Context) {}

// recent is for how long drops are shown.
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
