// Package redislist reads lists of Redis reliably: elements in flight are kept in another list. Start at [input.Read].
// settle.go settles elements, and puts those of dead consumers back.
package redislist

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the input.
type Config struct {
	redis.Connect `yaml:",inline"`
	Key           string        `yaml:"key,main" check:"required,nonempty" doc:"List to read."`
	Side          string        `yaml:"side" check:"oneof=left|right" doc:"End of the list to take from: left for senders that push to the right, and vice versa."`
	Consumer      string        `yaml:"consumer" doc:"Name of this consumer, under which unsettled elements are kept for its next start; HOST.PIPELINE.INPUT by default. Each process needs its own, the same at every start. Instances of one input append -0, -1 and so on."`
	ClaimAfter    time.Duration `yaml:"claim_after" check:"min=1s,max=24h" doc:"How long another consumer may be silent before its elements in flight are put back."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if c.Clustered() && redis.Tag(redis.SiblingKey(c.Key, ":x")) != redis.Tag(c.Key) {
		report("key", "has a brace, but no {tag}: elements in flight would be on another node of the cluster", "choose another name")
	}
}

const about = `
Reads a list in Redis (6.2 or newer), several elements at a time.

An element moves to a list of this consumer, {KEY}:processing:CONSUMER (KEY~:processing:CONSUMER if
KEY contains braces), and is removed from it when it is settled. After a restart, that list is read
first. {KEY}:consumers records when each consumer was last alive: once a consumer has been silent for
claim_after, its elements in flight go back to the list. {KEY}:settled records the last removal by
each consumer: if the answer to a removal is lost, it is not repeated. Elements that are returned go
back at once; failed ones, after five seconds and behind the others. Equal elements are not
distinguished. A server that is out of memory (maxmemory) can't move elements either: its list is read
once it has room again.

Metadata: list, redelivered.

    inputs:
      jobs: {redis_list: {url: "redis://localhost:6379", key: jobs}}
`

func init() {
	engine.Register(engine.Inputs, "redis_list", about, Config{Connect: redis.Defaults, Side: "left",
		ClaimAfter: time.Minute}, newInput)
}

const (
	maxMoved   = 256             // LMOVE commands in one pipeline
	retryDelay = 5 * time.Second // before a failed element is put back
)

type input struct {
	*source.Session[*conn]
	cfg                   Config
	log                   *slog.Logger
	consumer              string
	processing, consumers string      // keys
	side                  string      // LEFT or RIGHT
	meta, redeliveredMeta engine.Meta // of first deliveries, and of later ones

	mu   sync.Mutex // guards the fields below
	next uint64
	held map[uint64]string // elements that were read and are not settled, by Ref
	rest []element         // elements that were fetched and not yet read
	back []delayed         // failed elements, until they are put back

	settling sync.Mutex // guards the field below; always locked before mu
	once     redis.Once
}

type element struct {
	text        string
	redelivered bool
}

type delayed struct {
	text string
	due  time.Time
}

// conn is one connection of the input.
type conn struct {
	*redis.Session
	in *input

	// The fields below belong to the fetch; only one runs at a time.
	ownRead bool      // elements that an earlier connection left in flight were read
	width   int       // size of the last pipeline if it was filled, otherwise 1
	alive   time.Time // when the last heartbeat was sent
}

var (
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*input)(nil)
	_ engine.Leaser  = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	name := redis.Consumer(c.Consumer, env)
	meta := engine.Meta{}.With("list", c.Key)
	in := &input{cfg: c, log: env.Log, consumer: name, processing: redis.Processing(c.Key, name),
		consumers: redis.SiblingKey(c.Key, ":consumers"), side: strings.ToUpper(c.Side), held: map[uint64]string{},
		once: redis.Once{Key: redis.SiblingKey(c.Key, ":settled"), Member: name},
		meta: meta.Own(), redeliveredMeta: meta.With("redelivered", true).Own()}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits says that the source settles each element separately.
func (in *input) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// connect makes a connection, and records that this consumer is alive.
func (in *input) connect(ctx context.Context) (*conn, error) {
	s, err := in.cfg.Session()
	if err != nil {
		return nil, err
	}
	c := &conn{Session: s, in: in, width: 1}
	if err := in.heartbeat(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close(ctx, false))
	}
	return c, nil
}

// Read returns fetched elements, and fetches if there are none.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	c, room := in.Conn(), b.Room()
	for !in.addFetched(b) && ctx.Err() == nil {
		if err := c.Fetch(ctx, func(ctx context.Context) error { return in.fetch(ctx, c, room) }); err != nil {
			in.addFetched(b)
			return in, redis.Explain(err, "read list "+in.cfg.Key)
		}
	}
	return in, nil
}

// addFetched adds fetched elements to b, as many as there is room for. It reports whether there were any.
func (in *input) addFetched(b *engine.Batch) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	added := false
	for ; len(in.rest) > 0 && b.Room() > 0; in.rest = in.rest[1:] {
		e := in.rest[0]
		m := b.Add([]byte(e.text))
		in.next++
		in.held[in.next] = e.text
		m.Ref, m.Meta = in.next, in.meta
		if e.redelivered {
			m.Meta = in.redeliveredMeta
		}
		added = true
	}
	if len(in.rest) == 0 {
		in.rest = nil
	}
	return added
}

// fetch adds elements to rest. If none arrive within [redis.Block], it adds none.
func (in *input) fetch(ctx context.Context, c *conn, room int) error {
	if !c.ownRead {
		return in.readOwn(ctx, c)
	}
	if err := in.putBack(ctx, c, time.Now()); err != nil {
		return err
	}
	if time.Since(c.alive) >= in.cfg.ClaimAfter/4 {
		if err := in.heartbeat(ctx, c); err != nil {
			return err
		}
		if err := in.reclaim(ctx, c); err != nil {
			return err
		}
	}
	if c.width == 1 {
		text, err := c.Reader.BLMove(ctx, in.cfg.Key, in.processing, in.side, "RIGHT", redis.Block).Result()
		if errors.Is(err, goredis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		in.keep(false, text)
	}
	return in.move(ctx, c, min(room, maxMoved, 2*c.width))
}

// move moves up to n elements with one pipeline. If there were as many, the next one may be twice as large.
func (in *input) move(ctx context.Context, c *conn, n int) error {
	cmds := make([]*goredis.Cmd, n)
	for i := range cmds {
		cmds[i] = redis.Cmd(ctx, 1, "lmove", in.cfg.Key, in.processing, in.side, "RIGHT")
	}
	short, cancel := c.Within(ctx)
	defer cancel()
	c.Send(short, cmds)
	c.width = n
	for _, cmd := range cmds {
		text, err := cmd.Text()
		switch {
		case errors.Is(err, goredis.Nil):
			c.width = 1
		case err != nil:
			return err
		default:
			in.keep(false, text)
		}
	}
	return nil
}

// keep adds elements to rest.
func (in *input) keep(redelivered bool, all ...string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, text := range all {
		in.rest = append(in.rest, element{text, redelivered})
	}
}

// readOwn reads the elements that are in flight for this consumer, except those that this process still holds.
func (in *input) readOwn(ctx context.Context, c *conn) error {
	short, cancel := c.Within(ctx)
	defer cancel()
	in.settling.Lock()
	defer in.settling.Unlock()
	if err := in.once.Resume(short, c.Client); err != nil {
		return err
	}
	all, err := c.LRange(short, in.processing, 0, -1).Result()
	if err != nil {
		return err
	}
	in.mu.Lock()
	here := map[string]int{}
	for _, text := range in.held {
		here[text]++
	}
	for _, l := range in.back {
		here[l.text]++
	}
	in.mu.Unlock()
	for _, text := range all {
		if here[text] > 0 {
			here[text]--
			continue
		}
		in.keep(true, text)
	}
	c.ownRead = true
	return nil
}

// Close closes the connection. If it is the last one, elements that are not settled are put back.
func (c *conn) Close(ctx context.Context, last bool) error {
	in := c.in
	c.Leave()
	in.mu.Lock()
	in.rest = nil // these elements are in the list of this consumer, too
	in.mu.Unlock()
	var err error
	if last {
		in.settling.Lock()
		defer in.settling.Unlock()
		if err = in.once.Resume(ctx, c.Client); err == nil { // settled elements must not be put back
			_, err = in.moveBack(ctx, c, in.processing)
		}
		err = redis.Explain(err, "put elements back into list "+in.cfg.Key)
	}
	return errors.Join(err, c.Client.Close())
}
