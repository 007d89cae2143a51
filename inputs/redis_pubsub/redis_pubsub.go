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
	"github.com/flowd-io/flowd/internal/queue/redis"
	"github.com/flowd-io/flowd/schema"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the input.
type Config struct {
	redis.Connect `yaml:",inline"`
	Channels      engine.Names `yaml:"channels" doc:"Channels to subscribe to."`
	Patterns      engine.Names `yaml:"patterns" doc:"Patterns of channels to subscribe to, such as news.*: * matches any text, ? one character, [ab] one of these. A message that several match arrives several times."`
	AtMostOnce    bool         `yaml:"at_most_once" doc:"Accept that messages may be lost; otherwise lint warns."`
	Buffer        schema.Size  `yaml:"buffer" check:"min=1KiB,max=1GiB" doc:"Bytes of messages that may wait for the pipeline: those that arrive beyond that are dropped, and counted in the log."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if len(c.Channels)+len(c.Patterns) == 0 {
		report("channels", "nothing is subscribed to", "write `channels` or `patterns`")
	}
	for name, all := range map[string]engine.Names{"channels": c.Channels, "patterns": c.Patterns} {
		if slices.Contains(all, "") {
			report(name, "has an empty name", "remove it")
		}
	}
}

// Words are what users of other systems write.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["channel"], words["pattern"] = "write `channels`", "write `patterns`"
	words["use_patterns"] = "remove it, and write `patterns`"
	words["key"] = "write `channels`"
	return words
}

// Traits says that Redis forgets a message as soon as it is sent.
func (c Config) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesNothing, Forgets: !c.AtMostOnce}
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
	cfg Config
	log *slog.Logger

	start  redis.Starting
	client *redis.Client
	sub    *goredis.PubSub
	task   sync.WaitGroup
	more   chan struct{} // has room for one: there are messages, or an error

	mu      sync.Mutex // guards the fields below
	waiting []*goredis.Message
	bytes   int
	dropped int // since it was logged
	told    time.Time
	err     error
}

var (
	_ engine.Opener  = (*input)(nil)
	_ engine.Closer  = (*input)(nil)
	_ engine.Traited = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 {
		return nil, errors.New("several instances would all get the same messages (remove `concurrency`)")
	}
	return &input{cfg: c, log: env.Log}, nil
}

// Traits are those of the configuration.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Open subscribes.
func (in *input) Open(ctx context.Context) error { return in.start.Opened(in.open(ctx)) }

func (in *input) open(ctx context.Context) error {
	client, err := in.cfg.Client(quiet, 2)
	if err != nil {
		return err
	}
	in.client, in.more = client, make(chan struct{}, 1)
	in.mu.Lock()
	in.err = nil
	in.mu.Unlock()
	short, cancel := client.Within(ctx)
	defer cancel()
	if err := in.subscribe(short); err != nil {
		return errors.Join(redis.Explain(err, "subscribe"), in.Close(ctx))
	}
	in.task.Go(in.receive)
	return nil
}

// subscribe waits until everything is subscribed to.
func (in *input) subscribe(ctx context.Context) error {
	in.sub = in.client.Subscribe(context.WithoutCancel(ctx))
	if len(in.cfg.Channels) > 0 {
		if err := in.sub.Subscribe(ctx, in.cfg.Channels...); err != nil {
			return err
		}
	}
	if len(in.cfg.Patterns) > 0 {
		if err := in.sub.PSubscribe(ctx, in.cfg.Patterns...); err != nil {
			return err
		}
	}
	for left := len(in.cfg.Channels) + len(in.cfg.Patterns); left > 0; {
		got, err := in.sub.Receive(ctx)
		if err != nil {
			return err
		}
		switch got := got.(type) {
		case *goredis.Subscription:
			left--
		case *goredis.Message:
			in.keep(got)
		default:
			return errUnasked
		}
	}
	return nil
}

// errUnasked is for a server that could go on like that.
var errUnasked = errors.New("the server answers what it was not asked")

// quiet is how long a connection may say nothing until it is asked whether it lives.
const quiet = 15 * time.Second

// receive takes messages until the connection ends.
func (in *input) receive() {
	err := in.messages()
	in.mu.Lock()
	in.err = err
	in.mu.Unlock()
	in.wake()
}

// messages takes them. What has no place in a message makes the library panic.
func (in *input) messages() (err error) {
	defer engine.Recovered(&err)
	ctx, asked, pings := context.Background(), false, 0
	for {
		got, err := in.sub.ReceiveTimeout(ctx, quiet)
		if timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err); ok && timeout.Timeout() && !asked {
			if err = in.sub.Ping(ctx); err == nil {
				asked = true
				pings++
				continue
			}
		}
		if err != nil {
			return err
		}
		asked = false
		switch got := got.(type) {
		case *goredis.Message:
			in.keep(got)
		case *goredis.Pong:
			if pings--; pings < 0 {
				return errUnasked
			}
		}
	}
}

func (in *input) wake() {
	select {
	case in.more <- struct{}{}:
	default:
	}
}

// overhead is about what a message takes beside its payload.
const overhead = 100

// keep adds a message to those that wait, or drops it.
func (in *input) keep(m *goredis.Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	size := len(m.Payload) + overhead
	if in.bytes+size > int(in.cfg.Buffer) {
		in.dropped++
		in.tell(false)
		return
	}
	in.waiting, in.bytes = append(in.waiting, m), in.bytes+size
	in.wake()
}

// tell logs what was dropped, now and then. in.mu is held.
func (in *input) tell(last bool) {
	const often = 10 * time.Second
	if in.dropped == 0 || !last && time.Since(in.told) < often {
		return
	}
	in.log.Warn("messages are dropped: the pipeline is slower than they are published, and buffer is full",
		"messages", in.dropped)
	in.dropped, in.told = 0, time.Now()
}

// Read gives what waits.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if err := in.start.Failed(); err != nil {
		return nil, err
	}
	for {
		given, err := in.give(b)
		if given || err != nil {
			return nil, err
		}
		select {
		case <-in.more:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// give adds what waits, as far as there is room. The error comes after the last.
func (in *input) give(b *engine.Batch) (given bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for ; len(in.waiting) > 0 && b.Room() > 0; in.waiting = in.waiting[1:] {
		w := in.waiting[0]
		in.bytes -= len(w.Payload) + overhead
		m := b.Add([]byte(w.Payload))
		m.Meta = engine.Meta{}.With("channel", w.Channel)
		if w.Pattern != "" {
			m.Meta = m.Meta.With("pattern", w.Pattern)
		}
		m.Meta = m.Meta.Own()
		given = true
	}
	if len(in.waiting) == 0 {
		in.waiting = nil
		if !given && in.err != nil {
			return false, redis.Explain(in.err, "receive (what is published before flowd has subscribed again is lost)")
		}
	}
	in.tell(false)
	return given, nil
}

// Close ends the subscriptions.
func (in *input) Close(context.Context) error {
	if in.client == nil {
		return nil
	}
	var err error
	if in.sub != nil {
		err = in.sub.Close()
	}
	in.task.Wait()
	in.mu.Lock()
	in.tell(true)
	in.mu.Unlock()
	in.client.Close()
	in.client = nil
	if errors.Is(err, goredis.ErrClosed) {
		return nil
	}
	return err
}
