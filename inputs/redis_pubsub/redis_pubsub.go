// Package redispubsub subscribes to channels of Redis. Start at [input.Read].
package redispubsub

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	"github.com/flowd-io/flowd/schema"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the input.
type Config struct {
	redis.Connect `yaml:",inline"`
	Channels      engine.Names `yaml:"channels" doc:"Channels to subscribe to."`
	Patterns      engine.Names `yaml:"patterns" doc:"Patterns of channels to subscribe to, such as news.*: * matches any text, ? one character, [ab] one of these. A message that several match arrives several times."`
	AtMostOnce    bool         `yaml:"at_most_once" doc:"Accept that messages may be lost; otherwise lint warns."`
	Buffer        schema.Size  `yaml:"buffer" check:"min=1KiB,max=1GiB" doc:"Bytes of messages that may wait for the pipeline. Messages beyond that are dropped, and counted in the log."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if len(c.Channels)+len(c.Patterns) == 0 {
		report("channels", "names no channel", "write `channels` or `patterns`")
	}
	for name, all := range map[string]engine.Names{"channels": c.Channels, "patterns": c.Patterns} {
		if slices.Contains(all, "") {
			report(name, "has an empty name", "remove it")
		}
	}
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["channel"], words["pattern"] = "write `channels`", "write `patterns`"
	words["use_patterns"] = "remove it, and write `patterns`"
	words["key"] = "write `channels`"
	return words
}

// Traits says that messages can't be redelivered: Redis does not store them.
func (c Config) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesNothing, Forgets: true, Lossy: c.AtMostOnce}
}

const about = `
Subscribes to Redis channels: at most once.

Redis does not store what is published: messages that arrive while the connection is lost,
while flowd is stopped, or while more than buffer waits for the pipeline are lost, as are those
in flight in a crash. For messages that must not be lost, use redis_stream.

Metadata: channel, and pattern if one matched.

    inputs:
      news:
        redis_pubsub: {url: "redis://localhost:6379", channels: news, patterns: "news.*", at_most_once: true}
`

func init() {
	engine.Register(engine.Inputs, "redis_pubsub", about, Config{Connect: redis.Defaults, Buffer: 16 << 20}, newInput)
}

type input struct {
	*source.Session[*conn]
	cfg Config
	log *slog.Logger
}

// conn is one connection, with its subscriptions.
type conn struct {
	in     *input
	client *redis.Client
	sub    *goredis.PubSub
	task   sync.WaitGroup
	more   source.Signal // set when a message has arrived, or the connection is lost

	mu      sync.Mutex // guards the fields below
	waiting []*goredis.Message
	bytes   int       // size of waiting
	dropped int       // messages dropped since the last warning
	logged  time.Time // when the last warning was logged
	err     error     // why the connection was lost
}

var _ engine.Traited = (*input)(nil)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 {
		return nil, errors.New("several instances would all get the same messages (remove `concurrency`)")
	}
	in := &input{cfg: c, log: env.Log}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// connect makes a connection and subscribes.
func (in *input) connect(ctx context.Context) (*conn, error) {
	client, err := in.cfg.Client(pingAfter, 2)
	if err != nil {
		return nil, err
	}
	c := &conn{in: in, client: client, more: source.NewSignal()}
	short, cancel := client.Within(ctx)
	defer cancel()
	if err := c.subscribe(short); err != nil {
		return nil, errors.Join(redis.Explain(err, "subscribe"), c.Close(ctx, false))
	}
	c.task.Go(c.receive)
	return c, nil
}

// subscribe subscribes, and waits until the server has confirmed each subscription.
func (c *conn) subscribe(ctx context.Context) error {
	cfg := &c.in.cfg
	c.sub = c.client.Subscribe(context.WithoutCancel(ctx))
	if len(cfg.Channels) > 0 {
		if err := c.sub.Subscribe(ctx, cfg.Channels...); err != nil {
			return err
		}
	}
	if len(cfg.Patterns) > 0 {
		if err := c.sub.PSubscribe(ctx, cfg.Patterns...); err != nil {
			return err
		}
	}
	for left := len(cfg.Channels) + len(cfg.Patterns); left > 0; {
		got, err := c.sub.Receive(ctx)
		if err != nil {
			return err
		}
		switch got := got.(type) {
		case *goredis.Subscription:
			left--
		case *goredis.Message:
			c.keep(got)
		default:
			return errUnasked
		}
	}
	return nil
}

// errUnasked ends the connection to a server that might otherwise keep a loop busy with unexpected replies.
var errUnasked = errors.New("the server sent a reply that was not requested")

// pingAfter is how long a connection may be idle before flowd sends a ping. It is lost if it is idle for as long again.
const pingAfter = 15 * time.Second

// receive receives messages until the connection is lost.
func (c *conn) receive() {
	err := c.messages()
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	c.more.Set()
}

// messages receives messages until the connection is lost. The library panics at a malformed one.
func (c *conn) messages() (err error) {
	defer engine.Recovered(&err)
	ctx, pinged, pings := context.Background(), false, 0 // pings: without an answer
	for {
		got, err := c.sub.ReceiveTimeout(ctx, pingAfter)
		if timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err); ok && timeout.Timeout() && !pinged {
			if err = c.sub.Ping(ctx); err == nil {
				pinged = true
				pings++
				continue
			}
		}
		if err != nil {
			return err
		}
		pinged = false
		switch got := got.(type) {
		case *goredis.Message:
			c.keep(got)
		case *goredis.Pong:
			if pings--; pings < 0 {
				return errUnasked
			}
		}
	}
}

// overhead is about how many bytes a message needs besides its payload.
const overhead = 100

// keep adds a message to waiting. If the buffer is full, it drops the message.
func (c *conn) keep(m *goredis.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := len(m.Payload) + overhead
	if c.bytes+size > int(c.in.cfg.Buffer) {
		c.dropped++
		c.logDropped(false)
		return
	}
	c.waiting, c.bytes = append(c.waiting, m), c.bytes+size
	c.more.Set()
}

// logDropped logs how many messages were dropped, at most once per interval unless last is set. c.mu is held.
func (c *conn) logDropped(last bool) {
	const interval = 10 * time.Second
	if c.dropped == 0 || !last && time.Since(c.logged) < interval {
		return
	}
	c.in.log.Warn("messages were dropped: they are published faster than the pipeline processes them, and buffer is full",
		"messages", c.dropped)
	c.dropped, c.logged = 0, time.Now()
}

// Read returns waiting messages, and waits if there are none.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	c := in.Conn()
	for {
		added, err := c.addWaiting(b)
		if added || err != nil {
			return nil, err
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// addWaiting adds waiting messages to b, as many as there is room for, and reports whether there were any. The error of a
// lost connection comes after the last message.
func (c *conn) addWaiting(b *engine.Batch) (added bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; len(c.waiting) > 0 && b.Room() > 0; c.waiting = c.waiting[1:] {
		w := c.waiting[0]
		c.bytes -= len(w.Payload) + overhead
		m := b.Add([]byte(w.Payload))
		m.Meta = engine.Meta{}.With("channel", w.Channel)
		if w.Pattern != "" {
			m.Meta = m.Meta.With("pattern", w.Pattern)
		}
		m.Meta = m.Meta.Own()
		added = true
	}
	if len(c.waiting) == 0 {
		c.waiting = nil
		if !added && c.err != nil {
			return false, redis.Explain(c.err, "receive (messages are lost until flowd has subscribed again)")
		}
	}
	c.logDropped(false)
	return added, nil
}

// Close ends the subscriptions and closes the connection.
func (c *conn) Close(context.Context, bool) error {
	var err error
	if c.sub != nil {
		err = c.sub.Close()
	}
	c.task.Wait()
	c.mu.Lock()
	c.logDropped(true)
	c.mu.Unlock()
	c.client.Close()
	if errors.Is(err, goredis.ErrClosed) {
		return nil
	}
	return err
}
